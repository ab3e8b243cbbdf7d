"""Turns the probabilities of the activity network into starts and ends of speech, with hysteresis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SpeechBoundary:
    """The start (`speaking`) or the end of speech. Its frame may lie before the last one that was read."""

    speaking: bool
    frame: int


@dataclass(frozen=True)
class ActivityReading:
    """The activity of a segment after some of its frames."""

    boundaries: tuple[SpeechBoundary, ...]  # the boundaries found in the last frames that were read
    speaking: bool
    opened: bool  # whether there was something like speech; before that, words come from music or keyboards
    quiet: int  # the number of frames since the last active one
    frames: int  # the number of frames of the segment so far
    resumed: int | None = None  # the frame at which the speaker went on after the last pause; None without a pause

    @property
    def spoken(self) -> int | None:
        """The number of frames with speech since the last pause that has ended; None if there was no pause."""
        return None if self.resumed is None else self.last_active - self.resumed

    @property
    def last_active(self) -> int:
        """The frame after the last active one."""
        return self.frames - self.quiet


@dataclass(frozen=True)
class ActivityRule:
    """Speech starts after `open_ms` at `open_above` or more, and ends after `close_ms` below `close_below`."""

    open_above: float = 0.93
    close_below: float = 0.35
    open_ms: int = 80
    close_ms: int = 480
    # The words of a segment count as soon as something is similar to speech, so that no real word is lost.
    heard_above: float = 0.7
    heard_ms: int = 160
    # The network recognises the first sound of a word this much later.
    late_ms: int = 40
    # A shorter time without activity is not a pause, but a part of a word.
    pause_ms: int = 120
    frame_ms: float = 40.0

    def __post_init__(self) -> None:
        if not (0 < self.close_below <= self.open_above < 1 and 0 < self.heard_above <= self.open_above):
            raise ValueError("close_below and heard_above must not be higher than open_above")

    def frames(self, milliseconds: int) -> int:
        """Convert milliseconds to frames, at least one."""
        return max(1, math.ceil(milliseconds / self.frame_ms))


def probabilities_of(log_probs: Sequence[float]) -> list[float]:
    """Return the probabilities of speech in frames from their logarithms."""
    return list(map(math.exp, log_probs))


class ActivityTracker:
    """Follows the activity of one segment, or of a whole stream."""

    def __init__(self, rule: ActivityRule, speaking: bool = False) -> None:
        self.speaking = speaking
        self.opened = speaking
        self.quiet = 0  # frames since the last active one
        self.resumed: int | None = None  # the frame at which the speaker went on after a pause
        self._open_above, self._close_below, self._heard_above = rule.open_above, rule.close_below, rule.heard_above
        # Every frame of every stream is compared with these.
        self._pause, self._heard = rule.frames(rule.pause_ms), rule.frames(rule.heard_ms)
        self._open, self._close = rule.frames(rule.open_ms), rule.frames(rule.close_ms)
        self._late = round(rule.late_ms / rule.frame_ms)
        self._frames = 0
        self._high = 0  # how many frames in a row are at least `open_above`
        self._hinting = 0  # how many frames in a row are at least `heard_above`
        self._rising = 0  # the first of the active frames in a row
        self._stopped = 0  # the frame of the last call of `stop`

    def stop(self) -> None:
        """Note that speech has ended, for another reason than the probabilities. Later frames may start it again."""
        self.speaking = False
        self._high, self._rising, self._stopped = 0, self._frames, self._frames

    def reading(self, probabilities: Sequence[float]) -> ActivityReading:
        """Read the probabilities of the next frames. Return the activity after them."""
        boundaries = tuple(self.read(probabilities))
        return ActivityReading(boundaries, self.speaking, self.opened, self.quiet, self._frames, self.resumed)

    def read(self, probabilities: Sequence[float]) -> list[SpeechBoundary]:
        """Read the probabilities of the next frames. Return the starts and ends of speech in them."""
        boundaries = []
        for probability in probabilities:
            boundary = self._read(probability)
            if boundary:
                boundaries.append(boundary)
        return boundaries

    def _read(self, probability: float) -> SpeechBoundary | None:
        self._frames += 1
        active = probability >= self._close_below
        if active and self.quiet:
            self._rising = self._frames - 1
            spoke = self.quiet < self._frames - 1  # silence before the first word is not a pause
            if spoke and self.quiet >= self._pause:
                self.resumed = self._rising
        self.quiet = 0 if active else self.quiet + 1
        self._high = self._high + 1 if probability >= self._open_above else 0
        self._hinting = self._hinting + 1 if probability >= self._heard_above else 0
        self.opened = self.opened or self._hinting >= self._heard
        if not self.speaking and self._high >= self._open:
            self.speaking = True
            return SpeechBoundary(True, max(self._rising - self._late, self._stopped))
        if self.speaking and self.quiet >= self._close:
            self.speaking = False
            return SpeechBoundary(False, self._frames - self.quiet)
        return None


# Decides whether somebody is speaking, from a detector and from the words.


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
