"""Measures how long a step of many streams takes, on a GPU if there is one: the engine alone, in one process.

    python scripts/measure/step_time.py [--streams 1,32,128] [--steps 10] [--device cuda] [--bundle FOLDER]

All streams get a step of 320 ms at the same time, as one batch. If a step takes less than 320 ms, the recogniser keeps
up with the speakers. The first steps, which load and prepare the model, are not counted. `step_cost.py` measures
the CPU time of the parts.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.stream_options import StreamOptions

AUDIO = shipped("audio_samples/talk.flac")
STEP_MS = 320
SAMPLES = 16 * STEP_MS
PREPARING = 3  # steps

Samples = NDArray[np.int16]


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--streams", type=lambda text: list(map(int, text.split(","))), default=[1, 32, 128], help="1,32,128"
    )
    parser.add_argument("--steps", type=int, default=10, help="for each number of streams (10)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        recogniser = load_recogniser(options.bundle, slots=max(options.streams), device=options.device)
    except BundleError as error:
        print(f"step_time: {error}", file=sys.stderr)
        return 1
    audio: Samples = np.asarray(read_audio(AUDIO))
    print(f"| streams on {options.device} | ms for a step of {STEP_MS} ms, median | longest |\n|---|---|---|")
    for streams in options.streams:
        times = _step_times(recogniser, audio, streams, options.steps, options.device)
        print(f"| {streams} | {median(times):.0f} | {max(times):.0f} |", flush=True)
    return 0


def _step_times(recogniser: Recogniser, audio: Samples, streams: int, steps: int, device: str) -> list[float]:
    """Return the milliseconds of each step."""
    for stream in range(streams):
        recogniser.open(stream, StreamOptions(step_ms=STEP_MS))
    times = []
    for number in range(PREPARING + steps):
        chunks = [Chunk(stream, _part(audio, stream, number)) for stream in range(streams)]
        began = time.perf_counter()
        for _ in recogniser.step(chunks):
            pass
        if device != "cpu":
            torch.cuda.synchronize(device)
        times.append(1000 * (time.perf_counter() - began))
    for stream in range(streams):
        recogniser.close(stream)
    return times[PREPARING:]


def _part(audio: Samples, stream: int, number: int) -> Samples:
    begin = 7919 * stream % (len(audio) // 2) + number * SAMPLES
    return np.take(audio, range(begin, begin + SAMPLES), mode="wrap")


if __name__ == "__main__":
    sys.exit(main())
