"""A streaming model that reads letters from the level of the audio, and the recogniser that has it.

Only the interface is that of the real model. Slots, search and endpoint rule are the real ones. It computes with numpy:
a Triton that need not import torch starts in a tenth of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from streamer.engine.acoustics.streaming_model import Emissions, ModelState
from streamer.engine.recogniser import PHONES, AnswerOrRest, Chunk, Recogniser
from streamer.engine.search.greedy_search import GreedySearch
from streamer.engine.stream_options import StreamOptions
from streamer.engine.waiting import Work
from streamer.testing.exact_service import Fault
from streamer.testing.exact_speech import FRAME, LEVEL, UNITS

if TYPE_CHECKING:
    from streamer.engine.reader.reader_pass import ReaderPass
    from streamer.engine.text.punctuation_model import PunctuationModel


class ExactModel:
    """Reads a unit from the level of each frame, and emits it one frame late. A frame with two levels is the blank."""

    name = "exact"
    writes = False
    sample_rate = 16000
    frame_samples = FRAME
    ahead_samples = 0
    step_ms: tuple[int, ...] = (160, 320, 640)

    def make_state(self, slots: int) -> ModelState:
        """Return a state with the last unit of each stream."""
        # The values are random on purpose, because a slot must be reset before its use.
        return {"last": np.random.default_rng().integers(0, len(UNITS), slots)}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Clear the last units of these slots."""
        state["last"][list(slots)] = 0

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[np.int16]) -> Emissions:
        """Return the units of the frames, one frame late."""
        frames = samples.reshape(len(samples), -1, FRAME) / LEVEL
        steady = frames.max(axis=2) - frames.min(axis=2) < 0.1
        units = (frames.mean(axis=2).round() * steady).astype(np.int64).clip(0, len(UNITS) - 1)
        shifted = np.concatenate([state["last"][list(slots)][:, None], units], axis=1)
        state["last"][list(slots)] = shifted[:, -1]
        best = shifted[:, :-1, None] == np.arange(len(UNITS))
        letters = np.where(best, np.float32(-0.01), np.float32(-9.0))
        return {"characters": letters, PHONES: letters}

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        """Return the units of a whole segment."""
        yield
        state = self.make_state(1)
        self.reset(state, [0])
        return ExactModel.step(self, state, [0], samples[None])


# The recogniser with the exact model, which may have a fault.

HANG_S = 12.0
FOREVER_S = 3600.0
HANG_FILE = "hang"
SLOWNESS = 0.01  # the seconds for reading a segment of one second again slowly; they grow with the square of its length
PART_S = 0.005


def exact_recogniser(
    slots: int,
    idle_limit_s: float = 20.0,
    punctuation: PunctuationModel | None = None,
    reader_pass: ReaderPass | None = None,
) -> Recogniser:
    """Return a recogniser that reads letters from the level of the audio, with any search."""
    return Recogniser(
        ExactModel(),
        searches(slots),
        slots=slots,
        punctuation=punctuation,
        reader_pass=reader_pass,
        idle_limit_s=idle_limit_s,
    )


class SlowModel(ExactModel):
    """Reads whole segments slowly, in short parts."""

    def whole(self, samples: NDArray[np.int16]) -> Work[Emissions]:
        """Return the units of a whole segment."""
        for _ in range(round(SLOWNESS * (len(samples) / self.sample_rate) ** 2 / PART_S)):
            time.sleep(PART_S)
            yield
        return (yield from super().whole(samples))


class FaultyRecogniser(Recogniser):
    """An exact recogniser with a fault."""

    def __init__(
        self,
        fault: Fault,
        folder: Path,
        slots: int,
        idle_limit_s: float,
        reader_pass: ReaderPass | None = None,
    ) -> None:
        model = SlowModel() if fault == "reads again slowly" else ExactModel()
        super().__init__(model, searches(slots), slots=slots, reader_pass=reader_pass, idle_limit_s=idle_limit_s)
        self._fault = fault
        self._folder = folder

    def open(self, stream: int, options: StreamOptions | None = None, *, at_once: bool = True) -> None:
        """Open a stream. With the fault `hangs` this takes a long time."""
        if self._fault == "hangs" and not self.live:
            time.sleep(HANG_S)
        super().open(stream, options, at_once=at_once)

    def step_without_waiting(
        self, chunks: Sequence[Chunk], late: Callable[[], bool] = lambda: False
    ) -> Iterator[AnswerOrRest]:
        """Compute a batch. Depending on the fault, this fails, gives no events or never ends."""
        if self._fault == "fails":
            raise RuntimeError("no audio")
        if self._fault == "hangs later" and (self._folder / HANG_FILE).exists():
            time.sleep(FOREVER_S)
        for index, answer in super().step_without_waiting(chunks, late):
            yield (index, []) if self._fault == "says nothing" and isinstance(answer, list) else (index, answer)


def searches(slots: int) -> dict[str, GreedySearch]:
    """Return the searches that sessions may ask for."""
    return {name: GreedySearch(UNITS, slots) for name in ("lexicon", "greedy")}
