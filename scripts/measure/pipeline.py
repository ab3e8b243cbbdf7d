"""Measures how many streams a process carries if it searches one batch while the networks compute another one.

    python scripts/measure/pipeline.py [--network-ms 3,10] [--streams 64] [--steps 30] [--rounds 3] [--threads N]

Without a GPU, it says what a pipeline brings beside one. First the networks compute the steps of all streams on the
CPU. The rows `3 ms` and so on then play a GPU: the networks give what they have computed, after this time, in which the
processors have nothing to do. In the rows `computed` they compute as always, on the processors. A batch has half of the
streams, and the other half is due meanwhile. `live` is how many streams could be computed as fast as people speak. The
rows take turns, and each figure is the median of the rounds. All streams must have the same words in all rows.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from streamer.audio.audio_file import read_audio
from streamer.base.events import Final as FinalEvent
from streamer.base.machine import processors
from streamer.base.package import shipped
from streamer.engine.acoustics.bundle_files import BundleError
from streamer.engine.acoustics.streaming_model import Emissions, ModelState, StreamingModel
from streamer.engine.adapters.batch_threads import BatchThreads
from streamer.engine.adapters.held_requests import Precedence
from streamer.engine.bundle import load_recogniser
from streamer.engine.recogniser import Chunk, Recogniser, StreamError

AUDIO = shipped("audio_samples/talk.flac")
STEP_MS: Final = 320
SAMPLES: Final = 16 * STEP_MS
SWITCH_S: Final = 0.0001  # as in the service with a pipeline
LIMIT_S: Final = 600.0


class Networks:
    """The networks of a model, or what they have computed before."""

    def __init__(self, model: StreamingModel) -> None:
        self._compute, model.step = model.step, self.step  # type: ignore[method-assign]
        self._known: dict[tuple[int, int], Emissions] = {}  # of each step of each slot
        self._steps: dict[int, int] = {}
        self.replayed_ms: float | None = None

    def begin(self, replayed_ms: float | None) -> None:
        """Compute from the beginning, or give what is known after this time."""
        self._steps.clear()
        self.replayed_ms = replayed_ms

    def step(self, state: ModelState, slots: Sequence[int], samples: np.ndarray) -> Emissions:
        """Compute a step of these slots."""
        keys = [(slot, self._steps.get(slot, 0)) for slot in slots]
        self._steps |= {slot: number + 1 for slot, number in keys}
        if self.replayed_ms is None:
            emissions = self._compute(state, slots, samples)
            self._known |= {
                key: {head: values[row] for head, values in emissions.items()} for row, key in enumerate(keys)
            }
            return emissions
        time.sleep(self.replayed_ms / 1000)
        return {head: np.stack([self._known[key][head] for key in keys]) for head in self._known[keys[0]]}


class Streams:
    """Streams of which each has its next step as soon as it is answered."""

    def __init__(self, recogniser: Recogniser, streams: int, steps: int) -> None:
        self._recogniser, self._half = recogniser, -(-streams // 2)
        audio = np.asarray(read_audio(AUDIO))
        places = [range(7919 * stream, 7919 * stream + steps * SAMPLES) for stream in range(streams)]
        self._audio = [np.take(audio, each, mode="wrap") for each in places]
        self._precedence = Precedence()

    def compute(self, threads: int) -> tuple[float, list[str]]:
        """Compute all steps, in a pipeline if there are two threads. Return the time, and the words of each stream."""
        at, texts = dict.fromkeys(range(len(self._audio)), 0), [""] * len(self._audio)
        for stream in at:
            self._recogniser.open(stream)
        free, done, failures = list(at), threading.Event(), list[Exception]()

        def take_turn() -> None:
            with self._precedence.step():
                batch, free[:] = free[: self._half], free[self._half :]
                chunks = []
                for stream in batch:
                    end = at[stream] + SAMPLES
                    samples = self._audio[stream][at[stream] : end]
                    chunks.append(Chunk(stream, samples, end=end == len(self._audio[stream])))
                    at[stream] = end
                if free:
                    running.wake()
                for place, answer in self._recogniser.step(chunks):
                    if isinstance(answer, StreamError):
                        raise answer
                    texts[batch[place]] += "".join(event.text for event in answer if isinstance(event, FinalEvent))
                left = [chunk.stream for chunk in chunks if not chunk.end]
                free.extend(left)
                for chunk in chunks:
                    if chunk.end:
                        del at[chunk.stream]
                if left:
                    running.wake()
                if not at:
                    done.set()

        def failed(error: Exception) -> None:
            failures.append(error)
            done.set()

        running = BatchThreads(threads, take_turn, failed, math.inf)
        if threads > 1:
            self._recogniser.meanwhile(self._precedence.meanwhile, running.let_another_begin)
        began = time.perf_counter()
        running.wake()
        in_time = done.wait(LIMIT_S)
        seconds = time.perf_counter() - began
        running.stop(LIMIT_S)
        if failures or not in_time:
            raise failures[0] if failures else TimeoutError(f"the streams had not ended after {LIMIT_S:.0f} s")
        return seconds, texts


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network-ms", type=lambda text: list(map(float, text.split(","))), default=[3.0, 10.0])
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=processors(), help="that divide a search (the processors)")
    parser.add_argument("--bundle", type=Path, default=shipped("asr_repo/streaming_asr/1"))
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    try:
        recognisers = [
            load_recogniser(options.bundle, slots=options.streams, threads=options.threads, pipelined=pipelined)
            for pipelined in (False, True)
        ]
    except BundleError as error:
        print(f"pipeline: {error}", file=sys.stderr)
        return 1
    networks = [Networks(recogniser.model) for recogniser in recognisers]
    streams = [Streams(recogniser, options.streams, options.steps) for recogniser in recognisers]
    [(_, words), (_, same)] = [each.compute(1) for each in streams]  # also to know what is replayed
    found: dict[float | None, list[list[float]]] = {ms: [[], []] for ms in (None, *options.network_ms)}
    spoken_s = options.streams * options.steps * STEP_MS / 1000
    different = words != same
    for _ in range(options.rounds):
        for ms, rows in found.items():
            for place, row in enumerate(rows):
                networks[place].begin(ms)
                seconds, texts = streams[place].compute(place + 1)
                row.append(spoken_s / seconds)
                different |= texts != words
    print("| networks | live, in turn | live, pipelined | ratio |\n|---|---|---|---|")
    for ms, (in_turn, pipelined) in found.items():
        ratio = median(new / old for old, new in zip(in_turn, pipelined, strict=True))
        name = "computed" if ms is None else f"{ms:g} ms"
        print(f"| {name} | {median(in_turn):.0f} | {median(pipelined):.0f} | {ratio:.2f} |")
    if different:
        print("pipeline: the words are not the same in all rows", file=sys.stderr)
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
