"""Measures the cost of steps of 160 and 320 ms, and of a flush: CPU time of the engine alone, by its parts.

    python scripts/measure/step_cost.py [--streams 1,8,32] [--seconds 6] [--rounds 3] [--bundle FOLDER]

All streams get a step at the same time, as one batch on one thread. The first table has the CPU time for a second of
the audio of one stream; the lengths of the steps take turns, and each figure is the median of the rounds. The second
table has the CPU time of one stream for a flush, by how long the speaker has paused, and how many steps it computes.
The machine need not be idle, but the figures of a busy one are higher. Compare only those of one run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.features import LogMel
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.bundle import load_recogniser
from streamer.engine.network_graphs import CompiledActivity, CompiledEncoder
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.stream_options import StreamOptions

AUDIO = shipped("audio_samples/talk.flac")
STEPS_MS = (320, 160)
PAUSES_MS = (0, 300, 600)
MS = 16  # samples
PARTS = {
    "features": (LogMel, "energies"),  # includes that of the pieces
    "encoder": (CompiledEncoder, "step"),
    "activity": (CompiledActivity, "step"),  # includes that of the pieces
    "pieces": (SpeechDetector, "compute"),
    "search": (BeamSearch, "advance"),
    "end of segment": (BeamSearch, "alternatives"),
}

Samples = NDArray[np.int16]


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--streams", type=lambda text: list(map(int, text.split(","))), default=[1, 8, 32], help="1,8,32"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of audio in each round (6)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        recogniser = load_recogniser(options.bundle, slots=max(options.streams))
    except BundleError as error:
        print(f"step_cost: {error}", file=sys.stderr)
        return 1
    audio: Samples = np.asarray(read_audio(AUDIO))
    print(f"| streams | step | all | {' | '.join(PARTS)} |\n|{'---|' * (3 + len(PARTS))}")
    for streams in options.streams:
        rounds = [
            {step_ms: _steps(recogniser, audio, streams, step_ms, options.seconds) for step_ms in STEPS_MS}
            for _ in range(options.rounds)
        ]
        for step_ms in STEPS_MS:
            used = {part: median(each[step_ms][part] for each in rounds) for part in ("all", *PARTS)}
            print(f"| {streams} | {step_ms} ms | {' | '.join(f'{ms:.1f}' for ms in used.values())} |")
        ratios = sorted(each[160]["all"] / each[320]["all"] for each in rounds)
        print(f"| {streams} | ratio | {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)
    print("\n| pause before the flush | CPU time, median | steps |\n|---|---|---|")
    for paused_ms in PAUSES_MS:
        flushes = [_flush(recogniser, audio, paused_ms, left_ms) for left_ms in range(20, 320, 60)]
        steps = sorted(steps for _, steps in flushes)
        print(f"| {paused_ms} ms | {median(ms for ms, _ in flushes):.0f} ms | {steps[0]} to {steps[-1]} |", flush=True)
    return 0


def _steps(recogniser: Recogniser, audio: Samples, streams: int, step_ms: int, seconds: float) -> dict[str, float]:
    """Return the CPU milliseconds for a second of each stream."""
    for stream in range(streams):
        recogniser.open(stream, StreamOptions(step_ms=step_ms))
    count, size = int(1000 * seconds) // step_ms, step_ms * MS
    with _watched() as (used, _):
        for number in range(count):
            for _ in recogniser.step([Chunk(each, _part(audio, each, number, size)) for each in range(streams)]):
                pass
    for stream in range(streams):
        recogniser.close(stream)
    return {part: 1e6 * spent / (streams * count * step_ms) for part, spent in used.items()}


def _part(audio: Samples, stream: int, number: int, size: int) -> Samples:
    begin = 7919 * stream % (len(audio) // 2) + number * size
    return np.take(audio, range(begin, begin + size), mode="wrap")


def _flush(recogniser: Recogniser, audio: Samples, paused_ms: int, left_ms: int) -> tuple[float, int]:
    """Return the CPU milliseconds and the steps of a flush after a pause, with `left_ms` of audio in the last step."""
    dice = np.random.default_rng(0)
    spoken = np.concatenate([audio[: 3200 * MS], dice.integers(-3, 4, paused_ms * MS, dtype=np.int16)])
    whole = (len(spoken) // MS - left_ms) // 320 * 320 + left_ms
    recogniser.open(0, StreamOptions())
    for _ in recogniser.step([Chunk(0, spoken[-whole * MS :])]):
        pass
    with _watched() as (used, calls):
        for _ in recogniser.step([Chunk(0, spoken[:0], flush=True)]):
            pass
    recogniser.close(0)
    return 1000 * used["all"], calls["encoder"]


@contextmanager
def _watched() -> Iterator[tuple[dict[str, float], dict[str, int]]]:
    """Measure the CPU seconds and the calls of the parts."""
    used, calls = dict.fromkeys(("all", *PARTS), 0.0), defaultdict[str, int](int)
    originals = {part: getattr(kind, name) for part, (kind, name) in PARTS.items()}

    def watch(part: str) -> Any:
        def measured(*arguments: Any, **keywords: Any) -> Any:
            began = time.thread_time()
            try:
                return originals[part](*arguments, **keywords)
            finally:
                used[part] += time.thread_time() - began
                calls[part] += 1

        return measured

    for part, (kind, name) in PARTS.items():
        setattr(kind, name, watch(part))
    began = time.thread_time()
    try:
        yield used, calls
    finally:
        used["all"] = time.thread_time() - began
        for part, (kind, name) in PARTS.items():
            setattr(kind, name, originals[part])


if __name__ == "__main__":
    sys.exit(main())
