"""Computes steps of many streams in one process: how long they take, and with which words they end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.events import Final as FinalEvent
from streamer.base.json_types import JsonObject
from streamer.base.limits import STEP_MS
from streamer.base.torch_import import CPU
from streamer.engine.acoustics.acoustic_model import AcousticModel
from streamer.engine.acoustics.speech_detector import SpeechDetector
from streamer.engine.bundle import load_recogniser
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.search import beam_search
from streamer.engine.search.beam_search import BeamSearch
from streamer.engine.stream import StepHandling
from streamer.engine.stream_options import StreamOptions
from workshop.model_steps import own_step
from workshop.part_times import ALL, Places, part_times

MS: Final = 16  # samples
PREPARING: Final = 3  # steps that are not counted
SMALL_BATCHES: Final = (1, 48)  # the sizes of batches that a Triton with some hundred live streams forms
LONGEST_REQUEST: Final = 4 * STEP_MS * MS

Samples = NDArray[np.int16]


class StepTimes:
    """Measures the steps of a recogniser. Streams begin at many places of the same audio."""

    def __init__(self, bundle: Path, audio: Samples, slots: int, device: str) -> None:
        self._audio = audio
        self._synchronise: Callable[[], None] = lambda: None
        self._places = _places(device)
        if device != CPU:
            import torch

            self._synchronise = lambda: torch.cuda.synchronize(device)
        began = time.monotonic()
        self._recogniser = load_recogniser(bundle, slots=slots, device=device)
        self.load_s = time.monotonic() - began
        self._step_ms = own_step(STEP_MS, self._recogniser.model.step_ms)

    def measure(self, streams: int, steps: int, sizes: tuple[int, int] | None = None) -> JsonObject:
        """Measure steps of all streams, or batches of random streams with these smallest and largest sizes."""
        dice = random.Random(streams)
        for stream in range(streams):
            self._recogniser.open(stream, StreamOptions(step_ms=self._step_ms))
        heard = [0] * streams
        durations, computed = list[float](), 0
        parts: Mapping[str, float] = {}
        for counted_steps in (PREPARING, steps):
            durations, computed = [], 0
            with part_times(self._places, self._now) as times:
                for _ in range(counted_steps):
                    batch = (
                        range(streams) if sizes is None else dice.sample(range(streams), _size(dice, sizes, streams))
                    )
                    chunks = [Chunk(stream, self._step(stream, heard[stream])) for stream in batch]
                    for stream in batch:
                        heard[stream] += 1
                    began = self._now()
                    for _, answer in self._recogniser.step(chunks):
                        if isinstance(answer, StreamError):
                            raise answer
                    durations.append(self._now() - began)
                    computed += len(chunks)
            parts = times.seconds
        for stream in range(streams):
            self._recogniser.close(stream)
        return {
            "streams": streams,
            "batch": "all" if sizes is None else f"{sizes[0]} to {sizes[1]}",
            "step_ms": round(1000 * sum(durations) / steps, 2),
            "longest_ms": round(1000 * max(durations), 1),
            "live_streams": round(computed / sum(durations) * self._step_ms / 1000),
            "parts_ms": {name: round(1000 * s / steps, 2) for name, s in parts.items() if name != ALL},
        }

    def _now(self) -> float:
        self._synchronise()
        return time.perf_counter()

    def _step(self, stream: int, number: int) -> Samples:
        size = self._step_ms * MS
        begin = 7919 * stream % (len(self._audio) // 2) + number * size
        return np.take(self._audio, range(begin, begin + size), mode="wrap")


def _size(dice: random.Random, sizes: tuple[int, int], streams: int) -> int:
    return min(streams, dice.randint(*sizes))


def _places(device: str) -> Places:
    words: dict[str, Sequence[tuple[object, str]]] = {
        "search loops": [(beam_search, "read_steps")],
        "search": [(BeamSearch, "advance")],
        "end of segment": [(BeamSearch, "finish"), (BeamSearch, "alternatives")],
        "results": [(StepHandling, "run")],
        "pieces": [(SpeechDetector, "compute")],
    }
    if device == CPU:
        return {
            "network": [(AcousticModel, "step")],
            "neural model": [(NeuralModel, "read"), (NeuralModel, "score")],
            **words,
        }
    from streamer.engine.networks.neural_network import NeuralNetwork
    from streamer.engine.networks.step_graphs import GraphedNetwork

    return {
        "network": [(GraphedNetwork, "step")],
        "neural model": [(NeuralNetwork, "read"), (NeuralNetwork, "score")],
        **words,
    }


def words_of(recogniser: Recogniser, recordings: Sequence[Samples], seed: int) -> list[str]:
    """Return the words of each recording. All are computed at once, in random batches of requests of any length."""
    dice, texts, heard = random.Random(seed), [""] * len(recordings), [0] * len(recordings)
    step_ms = own_step(STEP_MS, recogniser.model.step_ms)
    for stream in range(len(recordings)):
        recogniser.open(stream, StreamOptions(step_ms=step_ms, written=True))
    left = list(range(len(recordings)))
    while left:
        chunks = []
        for stream in dice.sample(left, dice.randint(1, len(left))):
            audio = recordings[stream][heard[stream] :][: dice.randint(1, LONGEST_REQUEST)]
            heard[stream] += len(audio)
            chunks.append(Chunk(stream, audio, end=heard[stream] == len(recordings[stream])))
        for place, answer in recogniser.step(chunks):
            if isinstance(answer, StreamError):
                raise answer
            finals = [event.text for event in answer if isinstance(event, FinalEvent)]
            texts[chunks[place].stream] += "".join(f"{text}\n" for text in finals)
        left = [stream for stream in left if heard[stream] < len(recordings[stream])]
    return texts
