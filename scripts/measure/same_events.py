"""Compares the events of recordings, to the last character: in any company, and with another checkout.

    python scripts/measure/same_events.py --speech GIVEN [--recordings 160] [--save FILE] [--compare FILE]

GIVEN has `dev.tsv` and the shards that it names. The recordings lie all over it, and their streams have various
options. Each arrangement computes all of them, and each recording has a hash of all its events (without `heard`, which
follow the requests). Recordings that differ from the first arrangement, or from a file that another checkout saved, are
counted. The exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.base.events import Heard, as_json
from streamer.base.package import shipped
from streamer.base.text import counted
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search.search import Hotword
from streamer.engine.stream_options import StreamOptions
from workshop.data.corpus import CorpusError, decoded, read_manifest
from workshop.processes import Workers

DEV = "dev.tsv"
STEP_SAMPLES = 5120
IDLE_S = 3600.0  # in random batches on a busy machine, a stream may wait long for its turn
SIZES = (0, 1, 160, 640, 1280, 5120, 5121, 10_240, 30_000)  # samples of a request in random batches
HOTWORDS = (Hotword("quilter"), Hotword("the middle classes"), Hotword("zaxby's"))
OPTIONS = (
    StreamOptions(),
    StreamOptions(written=True, words=True, alternatives=3, partial_words=True),
    StreamOptions(step_ms=160, words=True),
    StreamOptions(settle_ms=1000, stability="high", words=True, written=True),
    StreamOptions(hotwords=HOTWORDS, alternatives=5, words=True),
    StreamOptions(second_pass=True, written=True, words=True),
    StreamOptions(endpoint=replace(StreamOptions().endpoint, turn=True), turns=True, written=True, words=True),
    StreamOptions(stability="medium", written=True, hotwords=HOTWORDS, settle_ms=600, alternatives=2),
    StreamOptions(search="greedy", words=True),
    StreamOptions(step_ms=640, words=True, alternatives=8),
)

Samples = NDArray[np.int16]
Hashes = dict[str, str]


@dataclass(frozen=True)
class Arrangement:
    """How the recordings are computed: how many at once, and in requests of a step, or of any size in any order."""

    together: int
    seed: int | None = None
    threads: int = 1

    def __str__(self) -> str:
        way = "a step of each" if self.seed is None else f"random batches ({self.seed})"
        return f"{self.together} at once, {way}, {counted(self.threads, 'thread')}"


ARRANGEMENTS = (
    Arrangement(32),
    Arrangement(1),
    Arrangement(32, threads=2),
    Arrangement(48, seed=1, threads=2),
    Arrangement(48, seed=2, threads=4),
    Arrangement(13, seed=3),
)
MOST = max(each.together for each in ARRANGEMENTS)


def main() -> int:
    """Compare, and print a table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, required=True, help="folder with dev.tsv and its shards")
    parser.add_argument("--recordings", type=int, default=160)
    parser.add_argument("--save", type=Path, help="file for the hashes of the first arrangement")
    parser.add_argument("--compare", type=Path, help="file that another checkout saved")
    parser.add_argument("--quick", action="store_true", help="only the first arrangement")
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    arrangements = ARRANGEMENTS[:1] if options.quick else ARRANGEMENTS
    try:
        recordings = _recordings(options.speech, options.recordings)
        recognisers = {
            threads: load_recogniser(options.bundle, slots=MOST, threads=threads, idle_limit_s=IDLE_S)
            for threads in sorted({each.threads for each in arrangements})
        }
        wanted = _read(options.compare) if options.compare else None
    except (BundleError, CorpusError, OSError, ValueError) as error:
        print(f"same_events: {error}", file=sys.stderr)
        return 1
    print("| arrangement | recordings | different | hash of all | seconds |\n|---|---|---|---|---|")
    different = 0
    for number, arrangement in enumerate(arrangements):
        began = time.perf_counter()
        found = dict(_hashes(recognisers[arrangement.threads], recordings, arrangement))
        if options.save and not number:
            options.save.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        wanted = wanted or found
        others = [name for name, each in found.items() if wanted.get(name) != each]
        different += len(others)
        seconds = time.perf_counter() - began
        print(f"| {arrangement} | {len(found)} | {len(others)} | {_hash_of(found)} | {seconds:.0f} |", flush=True)
        if others:
            print(f"different: {', '.join(others)}", file=sys.stderr)
    return 1 if different else 0


def _recordings(speech: Path, number: int) -> dict[str, Samples]:
    rows = read_manifest(speech / DEV)
    number = min(number, len(rows))
    chosen = [rows[place * len(rows) // number] for place in range(number)]
    with Workers(1) as workers:
        return {utterance.name: samples for utterance, samples in decoded(workers, speech, chosen)}


def _read(path: Path) -> Hashes:
    content = json.loads(path.read_text(encoding="utf-8"))
    return {str(name): str(each) for name, each in content.items()}


def _hashes(
    recogniser: Recogniser, recordings: Mapping[str, Samples], arrangement: Arrangement
) -> Iterator[tuple[str, str]]:
    """Yield the name of each recording with the hash of its events."""
    dice = None if arrangement.seed is None else random.Random(arrangement.seed)
    waiting = list(enumerate(recordings))
    if dice:
        dice.shuffle(waiting)
    waiting.reverse()
    running: dict[int, tuple[str, list[Samples]]] = {}
    events: dict[int, hashlib.blake2b] = {}
    while waiting or running:
        while waiting and len(running) < arrangement.together:
            number, name = waiting.pop()
            recogniser.open(number, OPTIONS[number % len(OPTIONS)])
            running[number] = name, _requests(recordings[name], dice)
            events[number] = hashlib.blake2b(digest_size=8)
        due = list(running) if dice is None else dice.sample(list(running), dice.randint(1, len(running)))
        chunks = [_chunk(number, running[number][1]) for number in due]
        for index, answer in recogniser.step(chunks):
            if isinstance(answer, StreamError):
                raise answer
            for event in answer:
                if not isinstance(event, Heard):
                    events[chunks[index].stream].update(as_json(event).encode() + b"\n")
        for chunk in chunks:
            if chunk.end:
                name, _ = running.pop(chunk.stream)
                yield name, events.pop(chunk.stream).hexdigest()


def _requests(samples: Samples, dice: random.Random | None) -> list[Samples]:
    """Return the requests of a recording, the last one first."""
    sizes, total = [STEP_SAMPLES], STEP_SAMPLES
    while total < len(samples):
        sizes.append(STEP_SAMPLES if dice is None else dice.choice(SIZES))
        total += sizes[-1]
    return np.split(samples, np.cumsum(sizes)[:-1])[::-1]


def _chunk(stream: int, requests: list[Samples]) -> Chunk:
    samples = requests.pop()
    return Chunk(stream, samples, end=not requests)


def _hash_of(hashes: Mapping[str, str]) -> str:
    lines: Sequence[str] = [f"{name} {each}\n" for name, each in sorted(hashes.items())]
    return hashlib.blake2b("".join(lines).encode(), digest_size=8).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
