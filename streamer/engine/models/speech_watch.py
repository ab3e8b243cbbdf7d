"""Decides whether somebody is speaking, from a detector and from the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamer.engine.models.activity_tracker import ActivityReading, ActivityTracker


@dataclass(frozen=True)
class SpeechChange:
    """The start (`speaking`) or the end of speech, at this sample of the stream."""

    speaking: bool
    sample: int


class SpeechWatch:
    """The speech of one stream."""

    def __init__(self, frame_samples: int, *, speaking: bool = False, tracker: ActivityTracker | None = None) -> None:
        """`speaking`: somebody is speaking at the start. `tracker` reads the probabilities of `hear`."""
        self.speaking = speaking
        self._frame = frame_samples
        self._tracker = tracker
        self._activity: ActivityReading | None = None  # None while there is none
        self._base = 0  # the sample of the first frame of the activity
        self._spoke = speaking  # whether somebody was speaking at some time in the running segment
        self._last_change = 0  # the sample of the last change, which no later change may precede

    def hear(self, probabilities: Sequence[float]) -> list[SpeechChange]:
        """Read the probabilities of the next frames of the stream."""
        return self.follow(self._tracker.reading(probabilities)) if self._tracker is not None else []

    def follow(self, activity: ActivityReading) -> list[SpeechChange]:
        """Read the activity that a detector has found."""
        self._activity = activity
        changes = [self._change(each.speaking, self._base + each.frame * self._frame) for each in activity.boundaries]
        return [change for change in changes if change]

    def find_words(self, sample: int) -> list[SpeechChange]:
        """Note that the segment has words, the first at this sample. They are speech even if no detector found it."""
        change = None if self._spoke else self._change(True, sample)
        return [change] if change else []

    def pause(self, sample: int, quiet_frames: int) -> list[SpeechChange]:
        """Note that a segment has ended in silence, so speech ends at this sample or before.

        Speech goes on if there was activity in the last `quiet_frames`: then only the words have ended.
        """
        if not self.speaking:
            return []
        activity = self._activity
        if activity is not None and activity.speaking:
            if activity.quiet < quiet_frames:
                return []
            sample = self._base + activity.last_active * self._frame
            if self._tracker is not None:
                self._tracker.stop()
        change = self._change(False, sample)
        return [change] if change else []

    def begin_segment(self, base: int | None = None) -> None:
        """Begin the next segment. `base` is its first sample, if the frames of the activity count from there."""
        self._spoke = self.speaking
        if base is not None:
            self._base, self._activity = base, None

    def _change(self, speaking: bool, sample: int) -> SpeechChange | None:
        if speaking == self.speaking:
            return None
        self.speaking = speaking
        self._spoke = self._spoke or speaking
        self._last_change = max(self._last_change, sample)
        return SpeechChange(speaking, self._last_change)
