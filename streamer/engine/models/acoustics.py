"""What turns steps of streams into emissions and activity, for a recogniser that searches words in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from streamer.engine.models.activity_tracker import ActivityReading, ActivityRule, ActivityTracker
from streamer.engine.models.streaming_model import ACTIVITY, Emissions, StreamingModel
from streamer.engine.segment_audio import SegmentAudio, Supply, TimeScale


class Acoustics(Protocol):
    """Computes steps of all slots."""

    def supply(self, time_scale: TimeScale, step_samples: int) -> Supply:
        """The supply of steps of one stream."""

    def compute(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """The emissions of these steps, and the activity by slot, if it is known.

        `speaking`: whether somebody was speaking before the step, as the events of the stream say.
        """

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""


class ModelAcoustics:
    """Computes samples with a streaming model."""

    def __init__(self, model: StreamingModel, slots: int) -> None:
        self._model = model
        self._state = model.make_state(slots)
        self._activity = SlotActivity()

    def supply(self, time_scale: TimeScale, step_samples: int) -> Supply:
        """The audio of one stream."""
        return SegmentAudio(time_scale, step_samples, self._model.ahead_samples)

    def compute(
        self, slots: Sequence[int], steps: Sequence[Any], speaking: Sequence[bool]
    ) -> tuple[Emissions, Mapping[int, ActivityReading]]:
        """The emissions of these steps, and the activity by slot, if the model reports it."""
        emissions = self._model.step(self._state, slots, np.stack(steps))
        if ACTIVITY not in emissions:
            return emissions, {}
        return emissions, self._activity.read(slots, emissions[ACTIVITY][:, :, 0].tolist(), speaking)

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        self._model.reset(self._state, slots)
        self._activity.reset(slots)


class SlotActivity:
    """Follows the activity of the running segment in each slot."""

    def __init__(self) -> None:
        self._trackers: dict[int, ActivityTracker] = {}

    def read(
        self, slots: Sequence[int], found: Sequence[Sequence[float]], speaking: Sequence[bool]
    ) -> dict[int, ActivityReading]:
        """Read the log-probabilities of the next frames of these slots.

        `speaking` counts where a segment begins: whether somebody was speaking before it.
        """
        readings = {}
        for slot, row, before in zip(slots, found, speaking, strict=True):
            if slot not in self._trackers:
                self._trackers[slot] = ActivityTracker(ActivityRule(), speaking=before)
            readings[slot] = self._trackers[slot].reading(list(map(math.exp, row)))
        return readings

    def reset(self, slots: Sequence[int]) -> None:
        """Begin a new segment in these slots."""
        for slot in slots:
            self._trackers.pop(slot, None)
