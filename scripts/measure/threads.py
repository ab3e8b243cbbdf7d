"""Measures how many streams the threads of one process carry, and what instances of one thread carry beside it.

    python scripts/measure/threads.py [--threads 1,2] [--streams 32] [--steps 30] [--rounds 3] [--bundle FOLDER]

All streams get a step of 320 ms at the same time. `live` is how many streams the threads could compute as fast as
people speak: the streams times the audio of a step, by its time. `by CPU time` is the same by the CPU time of the
longest way through the threads, so other work on the machine hardly changes it; it does not have what threads wait for
one another, or for the interpreter. A row `2 processes` has one thread in each, and half of the streams. The rows take
turns, and each figure is the median of the rounds. `memory` is the memory of all processes that they do not share with
others (private), after the steps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from streamer.audio.audio_file import read_audio
from streamer.base.limits import STEP_MS
from streamer.base.package import shipped
from streamer.base.text import counted
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk
from streamer.engine.stream_options import StreamOptions
from streamer.engine.threads import Threads
from workshop.model_steps import own_step

AUDIO = shipped("audio_samples/talk.flac")
MS: Final = 16  # samples
PREPARING: Final = 3  # steps
SWITCH_S: Final = 0.0005  # as in the service
FIGURES: Final = ("live", "path", "memory")


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=lambda text: list(map(int, text.split(","))), default=[1, 2], help="1,2")
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)  # in a process of this number of threads
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.alone:
        return _answer(options)
    arrangements = [(1, threads) for threads in options.threads]
    arrangements += [(threads, 1) for threads in options.threads if threads > 1]
    rounds = []
    try:
        for _ in range(options.rounds):
            rounds.append([_measure(options, *each) for each in arrangements])
    except BundleError as error:
        print(f"threads: {error}", file=sys.stderr)
        return 1
    print("| what computes | live | ratio | by CPU time | ratio | memory, MB |\n|---|---|---|---|---|---|")
    for place, (processes, threads) in enumerate(arrangements):
        live, path, memory = (median(each[place][figure] for each in rounds) for figure in FIGURES)
        ratio, path_ratio = (median(each[place][name] / each[0][name] for each in rounds) for name in FIGURES[:2])
        what = counted(threads, "thread") if processes == 1 else f"{processes} processes"
        print(f"| {what} | {live:.0f} | {ratio:.2f} | {path:.0f} | {path_ratio:.2f} | {memory:.0f} |", flush=True)
    return 0


def _measure(options: argparse.Namespace, processes: int, threads: int) -> dict[str, float]:
    """Return the figures of these processes together."""
    command = [sys.executable, __file__, "--alone", str(threads), "--streams", str(options.streams // processes)]
    command += ["--steps", str(options.steps), "--bundle", str(options.bundle)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for process in running:
        assert process.stdout
        if not process.stdout.readline():  # it says when it is ready
            raise BundleError(process.communicate()[1].strip().removeprefix("threads: "))
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers: list[dict[str, float]] = [json.loads(process.communicate()[0]) for process in running]
    return {figure: sum(answer[figure] for answer in answers) for figure in FIGURES}


def _answer(options: argparse.Namespace) -> int:
    """Compute steps when a line comes, and print the figures."""
    try:
        recogniser = load_recogniser(options.bundle, slots=options.streams, threads=options.alone)
    except BundleError as error:
        print(f"threads: {error}", file=sys.stderr)
        return 1
    sys.setswitchinterval(SWITCH_S)
    audio = np.asarray(read_audio(AUDIO))
    step_ms = own_step(STEP_MS, recogniser.model.step_ms)
    size = step_ms * MS
    for stream in range(options.streams):
        recogniser.open(stream, StreamOptions(step_ms=step_ms))
    batches = [
        [
            Chunk(stream, np.take(audio, range(begin := 7919 * stream + number * size, begin + size), mode="wrap"))
            for stream in range(options.streams)
        ]
        for number in range(PREPARING + options.steps)
    ]
    for batch in batches[:PREPARING]:
        list(recogniser.step(batch))
    print("ready", flush=True)
    sys.stdin.readline()
    waits = _watched_waits()
    began, used = time.perf_counter(), time.thread_time()
    for batch in batches[PREPARING:]:
        list(recogniser.step(batch))
    seconds, path = time.perf_counter() - began, time.thread_time() - used + sum(waits)
    spoken = options.streams * options.steps * step_ms / 1000
    print(json.dumps(dict(zip(FIGURES, (spoken / seconds, spoken / path, _private_mb()), strict=True))))
    return 0


def _watched_waits() -> list[float]:
    """Watch the parts of batches. Return a list that gets how much longer than the part of this thread another took."""
    original, waits, this = Threads.divide, list[float](), threading.current_thread()

    def divide(threads: Threads, size: int, work: Callable[[slice], Any]) -> list[Any]:
        own, others = [0.0], [0.0]

        def watched(part: slice) -> Any:
            began = time.thread_time()
            try:
                return work(part)
            finally:
                (own if threading.current_thread() is this else others).append(time.thread_time() - began)

        results = original(threads, size, watched)
        waits.append(max(0.0, max(others) - max(own)))
        return results

    Threads.divide = divide  # type: ignore[method-assign,assignment]
    return waits


def _private_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


if __name__ == "__main__":
    sys.exit(main())
