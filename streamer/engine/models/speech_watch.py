"""Whether somebody is speaking, as a detector and the words say. Pure; remembers what was said last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streamer.engine.models.activity_tracker import ActivityReading, ActivityTracker


@dataclass(frozen=True)
class SpeechChange:
    """Speech started (`speaking`) or ended at this sample of the stream."""

    speaking: bool
    sample: int


class SpeechWatch:
    """Follows one stream."""

    def __init__(self, frame_samples: int, *, speaking: bool = False, tracker: ActivityTracker | None = None) -> None:
        """`speaking`: somebody is speaking at the start. `tracker`: what `hear` reads probabilities with."""
        self.speaking = speaking
        self._frame = frame_samples
        self._tracker = tracker
        self._activity: ActivityReading | None = None  # None if no detector has said anything
        self._base = 0  # the sample from which the frames of the activity count
        self._spoke = speaking  # somebody was speaking at some time in the running segment
        self._said = 0  # the sample of the last change: later ones are not earlier

    def hear(self, probabilities: Sequence[float]) -> list[SpeechChange]:
        """Read the next frames of the stream."""
        return self.follow(self._tracker.reading(probabilities)) if self._tracker is not None else []

    def follow(self, activity: ActivityReading) -> list[SpeechChange]:
        """Note what a detector has found."""
        self._activity = activity
        found = [self._say(each.speaking, self._base + each.frame * self._frame) for each in activity.boundaries]
        return [change for change in found if change]

    def find_words(self, sample: int) -> list[SpeechChange]:
        """Note that the segment has words, the first at this sample. They are speech even if no detector heard it."""
        change = None if self._spoke else self._say(True, sample)
        return [change] if change else []

    def pause(self, sample: int, quiet_frames: int) -> list[SpeechChange]:
        """Note that a segment has ended in silence, at the latest at this sample, so speech has ended, too.

        It goes on if there was activity in the last `quiet_frames`, because that has no words.
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
        change = self._say(False, sample)
        return [change] if change else []

    def begin_segment(self, base: int | None = None) -> None:
        """Begin the next segment. `base`: its first sample, if its frames count from there."""
        self._spoke = self.speaking
        if base is not None:
            self._base, self._activity = base, None

    def _say(self, speaking: bool, sample: int) -> SpeechChange | None:
        if speaking == self.speaking:
            return None
        self.speaking = speaking
        self._spoke = self._spoke or speaking
        self._said = max(self._said, sample)
        return SpeechChange(speaking, self._said)
