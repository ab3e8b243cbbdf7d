"""Computes streams with and without a pipeline: the search of one batch while the networks compute another one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.audio.audio_file import read_audio
from streamer.base.events import Final as FinalEvent
from streamer.base.package import shipped
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import CONFIG, VERSION, asr_repository, config_text, model_config
from streamer.engine.acoustics.streaming_model import Emissions, ModelState, StreamingModel
from streamer.engine.adapters.batch_threads import BatchThreads
from streamer.engine.adapters.held_requests import Precedence
from streamer.engine.adapters.instance import PIPELINED
from streamer.engine.recogniser import Chunk, Recogniser, StreamError

STEP_MS: Final = 320
_AUDIO: Final = shipped("audio_samples/talk.flac")
_SAMPLES: Final = 16 * STEP_MS
_LIMIT_S: Final = 600.0


def make_repository(folder: Path, *, pipelined: bool) -> Path:
    """Make a repository of the shipped model, whose configuration says whether it is pipelined."""
    shipped_model, model = asr_repository() / MODEL, folder / MODEL
    model.mkdir(parents=True)
    (model / VERSION).symlink_to(shipped_model / VERSION)
    config = model_config(shipped_model)
    config.parameters[PIPELINED].string_value = str(pipelined).lower()
    (model / CONFIG).write_text(config_text(config), encoding="utf-8")
    return folder


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

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
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
        audio = np.asarray(read_audio(_AUDIO))
        places = [range(7919 * stream, 7919 * stream + steps * _SAMPLES) for stream in range(streams)]
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
                    end = at[stream] + _SAMPLES
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
        in_time = done.wait(_LIMIT_S)
        seconds = time.perf_counter() - began
        running.stop(_LIMIT_S)
        if failures or not in_time:
            raise failures[0] if failures else TimeoutError(f"the streams had not ended after {_LIMIT_S:.0f} s")
        return seconds, texts
