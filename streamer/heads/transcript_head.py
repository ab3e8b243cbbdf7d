"""The transcript head: a recogniser that gets its steps from an encoder and an activity head in other models."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamer.base.codes import FailureCode
from streamer.engine.acoustics.activity import ActivityReading
from streamer.engine.acoustics.bundle_files import ModelDescription
from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.acoustics.streaming_model import Emissions, FrameReader, ModelState
from streamer.engine.segment_audio import FreshStart, Supply, TimeScale
from streamer.engine.stream_events import StreamError
from streamer.heads.passage import Passage, Place


@dataclass(frozen=True)
class EncodedChunk:
    """A passage with its frames, and the activity after each of its steps."""

    passage: Passage
    frames: NDArray[np.float32]  # [frames, width]
    activity: Sequence[ActivityReading]
    samples: int  # the number of samples of the stream behind the frames
    pieces: Sequence[Sequence[float]] = ()  # the probabilities of speech in the frames of each piece

    def __len__(self) -> int:
        return self.samples


class EncodedSteps:
    """Supplies the steps of one stream, which another model has encoded. After a cut, it waits for the next run."""

    glances, glance = False, 0  # the activity comes in whole steps from another model

    def __init__(self, time_scale: TimeScale, *, pieces: bool) -> None:
        """`pieces`: whether the stream wants pieces."""
        self.received = self.base = self.computed = 0
        self._pieces: deque[Sequence[float]] | None = deque() if pieces else None
        self._piece_end = 0  # the number of samples of the stream in the pieces so far
        self.again: FreshStart | None = None
        self._frame = time_scale.frame_samples
        self._place = Place()
        self._steps: deque[tuple[NDArray[np.float32], ActivityReading | None]] = deque()
        self._size = 0  # frames of a step

    def append(self, chunk: EncodedChunk) -> None:
        """Add a passage. Drop steps of the run before the last cut. StreamError if a part is missing."""
        passage = chunk.passage
        self.received = passage.received
        self._size = passage.step
        if self._pieces is not None:
            self._pieces += chunk.pieces
        if self.again is not None:
            if passage.run < self.again.run:
                self._place.skip(passage)
                return
            self._place.run, self._place.frames, self.again = self.again.run, 0, None
        if self._place.take(passage):
            raise StreamError(FailureCode.FAILED, "a new run began without a cut")
        for number in range(passage.steps):
            frames = chunk.frames[number * passage.step : (number + 1) * passage.step]
            self._steps.append((frames, chunk.activity[number] if chunk.activity else None))

    def next_piece(self) -> Sequence[float] | None:
        """Return the next piece; None if none has arrived that ends before the end of the next step."""
        if not self._pieces:
            return None
        end = self._piece_end + len(self._pieces[0]) * self._frame
        if end > self.base + self.computed + self._size * self._frame:
            return None
        self._piece_end = end
        return self._pieces.popleft()

    def next_glance(self) -> Any | None:
        """Return None, because no step can be looked at before it is complete."""
        return None

    def next_step(self, flushing: bool) -> Any | None:
        """Return the next step; None while there is none."""
        return self._steps[0] if self._steps else None

    def advance(self) -> None:
        """Note that the next step was computed."""
        self._steps.popleft()
        self.computed += self._size * self._frame

    def begin_at(self, sample: int) -> None:
        """Begin the next segment at this sample. Drop all steps, because they belong to the run of the last segment."""
        self._steps.clear()
        # If no step was computed since the last cut, and the cut is the same, the encoder need not begin again.
        if self.computed or sample != self.base:
            self.again = FreshStart(sample, self._place.run + 1)
        self.base, self.computed = sample, 0


class EncodedAcoustics:
    """Computes log-probabilities from frames. The activity comes from the activity head."""

    detects = True
    two_pass = None  # the encoder has the audio of the segments

    def __init__(self, heads: FrameHeads) -> None:
        self._heads = heads

    def supply(self, time_scale: TimeScale, step_samples: int, *, pieces: bool) -> Supply:
        """Return the supply of steps of one stream."""
        return EncodedSteps(time_scale, pieces=pieces)

    def begin(self, slots: Sequence[int], language: str) -> None:
        """Do nothing, because the other models have the states of the streams."""

    def detect(self, slots: Sequence[int], pieces: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Return the probabilities that came with the pieces."""
        return [[probability for piece in own for probability in piece] for own in pieces]

    def compute(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """Return the emissions of these steps, and the activity that came with them."""
        emissions = self._heads.step({}, slots, np.stack([frames for frames, _ in steps]))
        return emissions, {
            slot: reading for slot, (_, reading) in zip(slots, steps, strict=True) if reading is not None
        }

    def glance(self, slot: int, beginning: Any) -> list[float]:
        """Return nothing, because the supply has no beginnings of steps."""
        return []

    def reset(self, slots: Sequence[int]) -> None:
        """Do nothing, because the other models have the states of the segments."""


class FrameHeads:
    """The heads of an acoustic model, as a streaming model that reads frames and has no state."""

    writes = False
    sample_rate = SAMPLE_RATE
    ahead_samples = 0

    def __init__(self, description: ModelDescription, reader: FrameReader) -> None:
        """`reader` computes the heads of the model with this description."""
        self.name, self.units, self.step_ms = description.name, description.units, description.step_ms
        self.frame_samples = description.encoder.frame_samples
        self._reader = reader

    def make_state(self, slots: int) -> ModelState:
        """Return an empty state."""
        return {}

    def reset(self, state: ModelState, slots: Sequence[int]) -> None:
        """Do nothing."""

    def step(self, state: ModelState, slots: Sequence[int], samples: NDArray[Any]) -> Emissions:
        """Return the log-probabilities of these frames, which take the place of samples: [batch, frames, width]."""
        return self._reader.emissions(samples)
