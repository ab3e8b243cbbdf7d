"""Decode the given speech, noise and rooms to memory-mapped int16 audio, and check what the manifests say.

    python scripts/data/prepare_speech.py --speech GIVEN --work PREPARED
    python scripts/data/prepare_speech.py --work PREPARED --synthetic-hours 5

GIVEN holds `train.tsv`, `dev.tsv`, their tar shards, `noise.tar` and `rooms.tar`. PREPARED gets `train`, `dev`,
`noise` and `rooms` as NAME.samples and NAME.tsv. Utterances of train that dev holds too are left out.

With --synthetic-hours it gets `synthetic` too: words that train lacks, numbers, spelled letters and commands, said by
the voices of Debian's packages espeak-ng, flite and, if asked for, rhvoice. The same seed says the same.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import random
import re
import sys
import tarfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile  # type: ignore[import-untyped]
import soxr  # type: ignore[import-untyped]

from streamer.training.data.corpus import SAMPLE_RATE, Corpus, CorpusError, Samples, Utterance, write_corpus
from streamer.training.data.prompts import prompts, spoken, transcript
from streamer.training.data.voices import Voice, check_installed, draw_voice
from streamer.training.language.pronunciation import cmu_dictionary

COLUMNS = ["shard", "member", "seconds", "corpus", "speaker", "text"]
TEXT = re.compile(r"[A-Z']+( [A-Z']+)*")
SECONDS_TOLERANCE = 0.15
SHORTEST_RARE_WORD = 3
SAID_AT_ONCE = 256


@dataclass(frozen=True)
class Row:
    """One line of a manifest."""

    shard: str
    member: str
    seconds: float
    corpus: str
    speaker: str
    text: str


def main() -> int:
    """Prepare everything; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speech", type=Path, help="folder with manifests and tar shards (default: prepared before)")
    parser.add_argument("--work", type=Path, required=True, help="folder for the prepared data")
    parser.add_argument("--synthetic-hours", type=float, default=0.0, help="of synthetic speech (default: none)")
    parser.add_argument("--engines", nargs="+", default=["espeak-ng", "flite"], help="of synthetic speech")
    parser.add_argument("--seed", type=int, default=1, help="of synthetic speech")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    try:
        if not options.speech and not options.synthetic_hours > 0:
            raise CorpusError("there is nothing to do: give --speech, --synthetic-hours or both")
        if options.synthetic_hours > 0:
            check_installed(options.engines)
        if options.speech:
            prepare(options.speech, options.work, options.processes)
        if options.synthetic_hours > 0:
            synthesise(options.work, options.synthetic_hours, options.engines, options.seed, options.processes)
    except CorpusError as error:
        print(f"prepare_speech: {error}", file=sys.stderr)
        return 1
    return 0


def prepare(speech: Path, work: Path, processes: int) -> None:
    """Write all four prepared sets into `work`."""
    dev = read_manifest(speech / "dev.tsv")
    train = read_manifest(speech / "train.tsv")
    kept = without(train, dev)
    print(f"train: {len(train)} rows, {len(train) - len(kept)} left out because dev holds them; dev: {len(dev)} rows")
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for name, rows in (("dev", dev), ("train", kept)):
            report(name, write_corpus(work, name, _decoded(pool, speech, rows)))
        for name in ("noise", "rooms"):
            report(name, write_corpus(work, name, _unlabelled(speech / f"{name}.tar")))


def synthesise(work: Path, hours: float, engines: Sequence[str], seed: int, processes: int) -> None:
    """Write the set `synthetic` beside the prepared train and dev."""
    heard = {word for utterance in Corpus(work, "train").utterances for word in utterance.text.split()}
    rare = [
        word
        for word in sorted(cmu_dictionary())
        if word not in heard and "'" not in word and len(word) >= SHORTEST_RARE_WORD
    ]
    judged_by = {utterance.text for utterance in Corpus(work, "dev").utterances}
    planned = planned_speech(rare, judged_by, engines, random.Random(seed))
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        report("synthetic", write_corpus(work, "synthetic", _said(pool, planned, hours * 3600)))


def planned_speech(
    words: Sequence[str], unwanted: Collection[str], engines: Sequence[str], rng: random.Random
) -> Iterator[tuple[Voice, str]]:
    """Endless voices with what they say, each engine as often as the others; texts of `unwanted` are never said."""
    turns = itertools.cycle(engines)
    for prompt in prompts(words, rng):
        if transcript(prompt) not in unwanted:
            yield draw_voice(next(turns), rng), prompt


def report(name: str, utterances: list[Utterance]) -> None:
    """Say how much was written."""
    hours = sum(utterance.seconds for utterance in utterances) / 3600
    print(f"{name}: {len(utterances)} recordings, {hours:.2f} h", flush=True)


def read_manifest(path: Path) -> list[Row]:
    """The rows of a manifest, each one checked."""
    if not path.is_file():
        raise CorpusError(f"the manifest {path} is missing")
    rows: list[Row] = []
    seen: set[tuple[str, str]] = set()
    with path.open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        if next(lines, None) != COLUMNS:
            raise CorpusError(f"{path}: the header must be {', '.join(COLUMNS)}, separated by tabs")
        for number, values in enumerate(lines, start=2):
            row = _parse(values, f"{path}, line {number}")
            if (row.shard, row.member) in seen:
                raise CorpusError(f"{path}, line {number}: {row.member} was listed before")
            seen.add((row.shard, row.member))
            rows.append(row)
    if not rows:
        raise CorpusError(f"{path} lists no utterance")
    return rows


def without(train: list[Row], dev: list[Row]) -> list[Row]:
    """The rows of train that are not also in dev, by recording and by speaker with text."""
    members = {(row.corpus, row.member) for row in dev}
    spoken = {(row.corpus, row.speaker, row.text) for row in dev}
    return [
        row
        for row in train
        if (row.corpus, row.member) not in members and (row.corpus, row.speaker, row.text) not in spoken
    ]


def decode(encoded: bytes, name: str) -> Samples:
    """Any audio file as int16 at 16 kHz; of several channels the first."""
    try:
        audio, rate = soundfile.read(io.BytesIO(encoded), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise CorpusError(f"{name} cannot be decoded: {error}") from error
    mono = audio[:, 0]
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    if not len(mono):
        raise CorpusError(f"{name} holds no audio")
    rounded: Samples = np.clip(np.rint(mono * 32768.0), -32768, 32767).astype(np.int16)
    return rounded


def _parse(values: list[str], where: str) -> Row:
    if len(values) != len(COLUMNS):
        raise CorpusError(f"{where}: {len(values)} columns instead of {len(COLUMNS)}")
    shard, member, seconds, corpus, speaker, text = values
    try:
        length = float(seconds)
    except ValueError:
        length = 0.0
    if not length > 0:
        raise CorpusError(f"{where}: {seconds!r} is not a length in seconds")
    if not TEXT.fullmatch(text):
        raise CorpusError(f"{where}: {text!r} is not a text in capitals with apostrophes")
    return Row(shard, member, length, corpus, speaker, text)


def _decoded(pool: ProcessPoolExecutor, speech: Path, rows: list[Row]) -> Iterator[tuple[Utterance, Samples]]:
    by_shard: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_shard.setdefault(row.shard, {})[row.member] = row
    for shard, wanted in by_shard.items():
        files = [(name, data) for name, data in _members(speech / shard) if name in wanted]
        missing = wanted.keys() - {name for name, _ in files}
        if missing:
            raise CorpusError(f"{speech / shard} lacks {len(missing)} recordings of the manifest: {min(missing)}, …")
        names, encoded = zip(*files, strict=True)
        for name, samples in zip(names, pool.map(decode, encoded, names, chunksize=32), strict=True):
            row = wanted[name]
            if abs(len(samples) / SAMPLE_RATE - row.seconds) > SECONDS_TOLERANCE:
                raise CorpusError(f"{name} lasts {len(samples) / SAMPLE_RATE:.2f} s, the manifest says {row.seconds} s")
            stem = f"{shard.removesuffix('.tar')}/{name}"
            yield Utterance(stem, 0, len(samples), row.corpus, row.speaker, row.text.lower()), samples


def _said(
    pool: ProcessPoolExecutor, planned: Iterator[tuple[Voice, str]], seconds: float
) -> Iterator[tuple[Utterance, Samples]]:
    """The first so many seconds of what was planned."""
    number = 0
    while seconds > 0:
        voices, texts = zip(*itertools.islice(planned, min(SAID_AT_ONCE, 1 + int(seconds / 2))), strict=True)
        said = pool.map(Voice.say, voices, map(spoken, texts), chunksize=8)
        for voice, text, samples in zip(voices, texts, said, strict=True):
            if seconds > 0:
                name = f"synthetic/{voice.engine}-{number:06d}"
                corpus = f"synthetic_{voice.engine}"
                yield Utterance(name, 0, len(samples), corpus, voice.speaker, transcript(text)), samples
                seconds -= len(samples) / SAMPLE_RATE
                number += 1


def _unlabelled(shard: Path) -> Iterator[tuple[Utterance, Samples]]:
    for name, data in _members(shard):
        samples = decode(data, name)
        yield Utterance(name, 0, len(samples), shard.stem, "", ""), samples


def _members(shard: Path) -> Iterable[tuple[str, bytes]]:
    if not shard.is_file():
        raise CorpusError(f"the shard {shard} is missing")
    with tarfile.open(shard) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                yield member.name, stream.read()


if __name__ == "__main__":
    sys.exit(main())
