"""Measures the processor time of the recogniser alone for a public model, without Triton, beside sherpa-onnx.

    python -m workshop.graphs.engine_cost FOLDER AUDIO.npy STREAMS ROUNDS     prints JSON

Both run in one process, and take turns. The medians of the rounds count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from streamer.audio.audio_file import SAMPLE_RATE
from streamer.engine.public.loading import load_public_model
from streamer.engine.recogniser import Chunk, Recogniser
from streamer.engine.stream_options import StreamOptions
from workshop.graphs.cost import PIECE_S, Speech, decode
from workshop.graphs.reference import reference_recogniser

_LIMIT_S: Final = 3600


@dataclass(frozen=True)
class EngineCost:
    """Seconds of processor time for a second of audio of one stream, and how many steps each stream had."""

    engine: float
    engine_steps: int
    reference: float
    reference_steps: int

    @property
    def ratio(self) -> float:
        """The processor time of the recogniser, relative to sherpa-onnx."""
        return self.engine / self.reference

    @property
    def step_ratio(self) -> float:
        """The same ratio for one step."""
        return self.ratio * self.reference_steps / self.engine_steps


def cost_of_engine(folder: Path, speech: Speech, streams: int, rounds: int) -> EngineCost:
    """Let the recogniser and sherpa-onnx recognise this many streams in turn, in a process of their own."""
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name) / "speech.npy"
        np.save(path, speech)
        command = [sys.executable, "-m", __name__, str(folder), str(path), str(streams), str(rounds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        raise RuntimeError(f"the measurement failed: {done.stderr[-2000:]}")
    return EngineCost(**json.loads(done.stdout))


def _measured(folder: Path, speech: Speech, streams: int, rounds: int) -> EngineCost:
    ours, theirs = load_public_model(folder, name="measured", slots=streams), reference_recogniser(folder)
    ways: tuple[Callable[[], int], ...] = (
        lambda: _recognise(ours, speech, streams),
        lambda: decode(theirs, speech, streams),
    )
    for way in ways:
        way()  # the first steps take longer
    results = [[_timed(way) for way in ways] for _ in range(rounds)]
    audio_s = streams * len(speech) / SAMPLE_RATE
    engine, reference = (statistics.median(each[number][0] for each in results) / audio_s for number in (0, 1))
    (_, engine_steps), (_, reference_steps) = results[0]
    return EngineCost(engine, engine_steps, reference, reference_steps)


def _timed(way: Callable[[], int]) -> tuple[float, int]:
    began = time.process_time()
    steps = way()
    return time.process_time() - began, steps


def _recognise(recogniser: Recogniser, speech: Speech, streams: int) -> int:
    """Recognise this many streams together. Returns how many steps were computed for each."""
    [step_ms], [search, *_] = recogniser.model.step_ms, recogniser.searches
    for stream in range(streams):
        recogniser.open(stream, StreamOptions(step_ms=step_ms, search=search))
    piece, steps, compute = round(PIECE_S * SAMPLE_RATE), 0, recogniser.model.step

    def counted(*arguments: object) -> object:
        nonlocal steps
        steps += 1
        return compute(*arguments)  # type: ignore[arg-type]

    recogniser.model.step = counted  # type: ignore[assignment, method-assign]
    try:
        for start in range(0, len(speech), piece):
            samples, end = speech[start : start + piece], start + piece >= len(speech)
            for _ in recogniser.step([Chunk(stream, samples, end=end) for stream in range(streams)]):
                pass
    finally:
        recogniser.model.step = compute  # type: ignore[method-assign]
    return steps


if __name__ == "__main__":
    measured = _measured(Path(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    json.dump(asdict(measured), sys.stdout)
