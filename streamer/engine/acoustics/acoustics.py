"""Turns steps of streams into emissions and activity for a recogniser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from streamer.engine.acoustics.activity import ActivityReading, ActivityRule, ActivityTracker, probabilities_of
from streamer.engine.acoustics.streaming_model import (
    ACTIVITY,
    Emissions,
    Glancing,
    Multilingual,
    StreamingModel,
    TwoPass,
)
from streamer.engine.segment_audio import Pieces, SegmentAudio, Supply, TimeScale, piece_samples
from streamer.engine.threads import Parallel


class Detector(Protocol):
    """Detects speech in short pieces of audio, independently of segments."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a stream in each of these slots."""

    def compute(self, slots: Sequence[int], pieces: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Return the probabilities of all frames in the next pieces of these slots. All have the same length."""


class Acoustics(Protocol):
    """Computes steps of all slots."""

    @property
    def detects(self) -> bool:
        """Whether speech is detected in pieces that are shorter than a step."""

    @property
    def two_pass(self) -> TwoPass | None:
        """The model that computes whole segments, if there is one. Then supplies are `WholeSegments`."""

    def supply(self, time_scale: TimeScale, step_samples: int, *, pieces: bool) -> Supply:
        """Return the supply of steps for one stream, and of `pieces`, if they are wanted and this object `detects`."""

    def begin(self, slots: Sequence[int], language: str) -> None:
        """Begin a stream in these slots, in which this language is spoken."""

    def detect(self, slots: Sequence[int], pieces: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Return the probabilities of speech in all frames of the next pieces of each of these slots.

        Slots may have different numbers of pieces, which all have the same length.
        """

    def compute(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """Return the emissions of these steps, and the activity by slot for slots where it is known.

        `speaking`: whether somebody was speaking before the step in each slot.
        """

    def glance(self, slot: int, beginning: Any) -> list[float]:
        """Return the probabilities of speech in the frames of a beginning of a step, from the supply of this slot."""

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""


class ModelAcoustics:
    """Computes samples with a streaming model."""

    def __init__(self, model: StreamingModel, slots: int, detector: Detector | None = None) -> None:
        self._model = model
        self._state = model.make_state(slots)
        self._activity = SlotActivity(ActivityRule(frame_ms=1000 * model.frame_samples / model.sample_rate))
        self._detector = detector
        self.two_pass = model if isinstance(model, TwoPass) else None

    @property
    def detects(self) -> bool:
        """Whether there is a detector."""
        return self._detector is not None

    def supply(self, time_scale: TimeScale, step_samples: int, *, pieces: bool) -> Supply:
        """Return the supply of steps for one stream, which has the audio."""
        piece_queue = Pieces(piece_samples(step_samples, time_scale.frame_samples)) if pieces and self.detects else None
        glances = isinstance(self._model, Glancing)
        return SegmentAudio(time_scale, step_samples, self._model.ahead_samples, piece_queue, glances=glances)

    def begin(self, slots: Sequence[int], language: str) -> None:
        """Begin a stream in these slots, in which this language is spoken."""
        if isinstance(self._model, Multilingual):
            self._model.set_language(self._state, slots, language)
        if self._detector is not None:
            self._detector.reset(slots)

    def detect(self, slots: Sequence[int], pieces: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Return the probabilities of speech in all frames of the next pieces of each of these slots."""
        return self._detector.compute(slots, pieces) if self._detector is not None else [[] for _ in slots]

    def compute(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """Return the emissions of these steps, and the activity by slot, if the model reports it."""
        emissions = self._model.step(self._state, slots, np.stack(steps))
        if ACTIVITY not in emissions:
            return emissions, {}
        return emissions, self._activity.read(slots, emissions[ACTIVITY][:, :, 0].tolist(), speaking)

    def glance(self, slot: int, beginning: Any) -> list[float]:
        """Return the probabilities of speech in the frames of a beginning of a step."""
        return self._model.glance(self._state, slot, beginning) if isinstance(self._model, Glancing) else []

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        self._model.reset(self._state, slots)
        self._activity.reset(slots)


class ParallelAcoustics(ModelAcoustics):
    """The same with a model whose slots can be computed in several threads."""

    def reserve(self, slots: Sequence[int], frames: int) -> None:
        """Do nothing: the state of each slot has its place."""


def model_acoustics(model: StreamingModel, slots: int, detector: Detector | None) -> ModelAcoustics:
    """Return the acoustics of a model, in several threads if the model says that it can be."""
    kind = ParallelAcoustics if isinstance(model, Parallel) else ModelAcoustics
    return kind(model, slots, detector)


class SlotActivity:
    """Follows the activity of the running segment in each slot."""

    def __init__(self, rule: ActivityRule) -> None:
        self._rule = rule
        self._trackers: dict[int, ActivityTracker] = {}

    def read(
        self, slots: Sequence[int], log_probs: Sequence[Sequence[float]], speaking: Sequence[bool]
    ) -> dict[int, ActivityReading]:
        """Read the log-probabilities of the next frames of these slots.

        `speaking`: whether somebody was speaking before. It has an effect only where a segment begins.
        """
        readings = {}
        for slot, row, before in zip(slots, log_probs, speaking, strict=True):
            if slot not in self._trackers:
                self._trackers[slot] = ActivityTracker(self._rule, speaking=before)
            readings[slot] = self._trackers[slot].reading(probabilities_of(row))
        return readings

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._trackers.pop(slot, None)
