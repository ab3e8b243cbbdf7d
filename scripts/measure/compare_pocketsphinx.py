"""Compare a service with PocketSphinx 5, which brings its own model and language model, on the same recordings.

    python scripts/measure/compare_pocketsphinx.py MANIFEST [--limit 100] [--cache FOLDER] [--engine]

Both are judged by streamer.evaluate, with one normalisation. Prints word error rates by corpus, how many errors the
service makes more or fewer than PocketSphinx (relative, with the 95 % interval of a paired bootstrap), and CPU seconds
for a second of audio. --cache keeps what PocketSphinx understood by the content of the audio, so that comparing again
only costs our own time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pocketsphinx  # type: ignore[import-untyped]

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.audio.recording_check import AudioError
from streamer.client import SessionError
from streamer.commands.evaluate import add_hearing_arguments
from streamer.evaluate.evaluation import Unavailable, heard_by
from streamer.evaluate.manifest import ManifestError, Utterance, read_manifest, select_utterances
from streamer.evaluate.measures.bootstrap import CorpusSample, Counts, Interval, interval
from streamer.evaluate.measures.error_rates import (
    ALL,
    CorpusRates,
    ScoredUtterance,
    by_corpus,
    corpus_rates,
    score_utterance,
)
from streamer.evaluate.normalise import normalise
from streamer.evaluate.reports.report import rate_text
from streamer.evaluate.reports.table import table
from streamer.training.data.corpus import replacing
from streamer.triton import TritonError


@dataclass(frozen=True)
class Heard:
    """What PocketSphinx made of one recording."""

    text: str
    seconds: float
    cpu_s: float


def main() -> int:
    """Compare; returns the exit status, 0 only if both heard every recording."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_hearing_arguments(parser)
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keeps what PocketSphinx understood")
    parser.add_argument("--processes", type=int, default=1, help="of PocketSphinx (1)")
    options = parser.parse_args()
    options.paced = False
    if options.processes < 1:
        parser.error("--processes is 1 or more")
    try:
        utterances = select_utterances(
            read_manifest(Path(options.manifest)), options.corpus, options.limit, options.half
        )
        heard = list(heard_by_pocketsphinx(utterances, options.cache, options.processes))
        run = heard_by(utterances, options)
    except (ManifestError, AudioError, Unavailable, TritonError, SessionError, OSError) as error:
        print(f"compare_pocketsphinx: {error}", file=sys.stderr)
        return 1
    if isinstance(run, int):
        return run
    theirs = [
        score_utterance(utterance, normalise(found.text)) for utterance, found in zip(utterances, heard, strict=True)
    ]
    ours = [score_utterance(result.utterance, result.words, result.failure) for result in run.results]
    print(comparison(theirs, ours))
    audio_s = sum(found.seconds for found in heard)
    print(
        f"\nCPU seconds for a second of audio: PocketSphinx {sum(found.cpu_s for found in heard) / audio_s:.3f}", end=""
    )
    parts = [f", {name} {used / run.seconds:.3f}" for name, used in run.cpu.items() if run.seconds]
    print("".join(parts) + f" ({audio_s:.0f} s of audio)")
    failed = [result for result in ours if result.failure]
    for result in failed:
        print(f"compare_pocketsphinx: {result.utterance.name}: {result.failure}", file=sys.stderr)
    return int(bool(failed))


def comparison(theirs: Sequence[ScoredUtterance], ours: Sequence[ScoredUtterance]) -> str:
    """Word error rates of both by corpus and in all; below zero the service makes fewer errors."""
    rows = []
    for their, our in zip(corpus_rates(theirs), corpus_rates(ours), strict=True):
        found = relative(_of(their, theirs), _of(our, ours))
        rows.append(
            [
                our.name,
                str(our.utterances),
                str(our.errors.words),
                rate_text(their.wer),
                rate_text(our.wer),
                rate_text(found),
            ]
        )
    return table(["corpus", "utterances", "words", "PocketSphinx %", "service %", "service's errors, relative %"], rows)


def relative(theirs: Sequence[ScoredUtterance], ours: Sequence[ScoredUtterance]) -> Interval:
    """Our word error rate against theirs, less one; utterances or speakers are drawn for both together."""
    pairs = zip(by_corpus(theirs).values(), by_corpus(ours).values(), strict=True)
    samples = []
    for their, our in pairs:
        errors = [(t.errors.word_errors, o.errors.word_errors) for t, o in zip(their, our, strict=True)]
        speakers = [result.utterance.speaker for result in our]
        samples.append(CorpusSample(our[0].utterance.corpus, np.array(errors, dtype=np.float64), speakers))
    return interval(samples, _relative)


def heard_by_pocketsphinx(utterances: Sequence[Utterance], cache: Path | None, processes: int) -> Iterator[Heard]:
    """PocketSphinx over all recordings, in their order."""
    # Spawned, not forked: whoever calls may have threads, and a fork of those is a warning.
    with ProcessPoolExecutor(processes, get_context("spawn"), _open) as pool:
        yield from pool.map(_hear, utterances, [cache] * len(utterances))


_decoder: pocketsphinx.Decoder


def _open() -> None:
    global _decoder
    _decoder = pocketsphinx.Decoder(loglevel="FATAL")


def _hear(utterance: Utterance, cache: Path | None) -> Heard:
    audio = utterance.samples().astype("<i2").tobytes()
    key = hashlib.sha256(f"pocketsphinx {version('pocketsphinx')}\n".encode() + audio).hexdigest()
    kept = cache / f"{key}.json" if cache else None
    if kept and kept.is_file():
        return Heard(**json.loads(kept.read_text(encoding="utf-8")))
    began = time.process_time()
    _decoder.start_utt()
    # The whole at once: it then knows the mean of all its features before the first word, its best case.
    _decoder.process_raw(audio, full_utt=True)
    _decoder.end_utt()
    cpu_s = time.process_time() - began
    found = _decoder.hyp()
    heard = Heard(found.hypstr if found else "", len(audio) / 2 / SAMPLE_RATE, cpu_s)
    if kept:
        with replacing(kept, "w") as stream:
            json.dump(asdict(heard), stream)
    return heard


def _of(line: CorpusRates, results: Sequence[ScoredUtterance]) -> list[ScoredUtterance]:
    return [result for result in results if line.name in (ALL, result.utterance.corpus)]


def _relative(sums: Counts) -> Counts:
    # Where PocketSphinx makes no error at all there is no ratio: half an error stands for none.
    found: Counts = sums[:, 1] / np.maximum(sums[:, 0], 0.5) - 1
    return found


if __name__ == "__main__":
    sys.exit(main())
