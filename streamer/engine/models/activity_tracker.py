"""Turns the probabilities of the activity network into starts and ends of speech, with hysteresis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SpeechBoundary:
    """Speech started (`speaking`) or ended at this frame of the segment, which lies in the past."""

    speaking: bool
    frame: int


@dataclass(frozen=True)
class ActivityReading:
    """What is known of the activity of a segment after some of its frames."""

    boundaries: tuple[SpeechBoundary, ...]  # those found in the last frames read
    speaking: bool
    opened: bool  # there was something like speech; until then, words found in the segment come from music or keys
    quiet: int  # frames since the last active one
    frames: int  # of the segment so far
    resumed: int | None = None  # the frame at which the speaker went on after a pause, None without one

    @property
    def spoken(self) -> int | None:
        """For how many frames somebody has spoken since the last pause that is over. None if there was no pause."""
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
    # The words of a segment count as soon as something looks like speech, so that no real word is lost.
    heard_above: float = 0.7
    heard_ms: int = 160
    # The network recognises the first sound of a word this much later.
    late_ms: int = 40
    # Less without activity is no pause: it is within a word.
    pause_ms: int = 120
    frame_ms: float = 40.0

    def __post_init__(self) -> None:
        if not (0 < self.close_below <= self.open_above < 1 and 0 < self.heard_above <= self.open_above):
            raise ValueError("close_below and heard_above must not be higher than open_above")

    def frames(self, milliseconds: int) -> int:
        """Milliseconds in frames, at least one."""
        return max(1, math.ceil(milliseconds / self.frame_ms))


class ActivityTracker:
    """Follows the activity of one segment, or of a whole stream."""

    def __init__(self, rule: ActivityRule, speaking: bool = False) -> None:
        self.speaking = speaking
        self.opened = speaking
        self.quiet = 0  # frames since the last active one
        self.resumed: int | None = None  # the frame at which the speaker went on after a pause
        self._rule = rule
        self._frames = 0
        self._high = 0  # frames in a row that are high enough to open
        self._hinting = 0  # frames in a row that are high enough to hear words
        self._rising = 0  # the first frame since which it has not been quiet
        self._stopped = 0  # the frame at which somebody else has decided that speech was over

    def stop(self) -> None:
        """Note that speech is over, for a reason that is not in the probabilities. What follows may start it again."""
        self.speaking = False
        self._high, self._rising, self._stopped = 0, self._frames, self._frames

    def reading(self, probabilities: Sequence[float]) -> ActivityReading:
        """Read the probabilities of the next frames. Returns all that is known after them."""
        boundaries = tuple(self.read(probabilities))
        return ActivityReading(boundaries, self.speaking, self.opened, self.quiet, self._frames, self.resumed)

    def read(self, probabilities: Sequence[float]) -> list[SpeechBoundary]:
        """Read the probabilities of the next frames. Returns the starts and ends of speech found."""
        boundaries = []
        for probability in probabilities:
            boundary = self._read(probability)
            if boundary:
                boundaries.append(boundary)
        return boundaries

    def _read(self, probability: float) -> SpeechBoundary | None:
        rule = self._rule
        self._frames += 1
        active = probability >= rule.close_below
        if active and self.quiet:
            self._rising = self._frames - 1
            spoke = self.quiet < self._frames - 1  # silence before the first word is no pause
            if spoke and self.quiet >= rule.frames(rule.pause_ms):
                self.resumed = self._rising
        self.quiet = 0 if active else self.quiet + 1
        self._high = self._high + 1 if probability >= rule.open_above else 0
        self._hinting = self._hinting + 1 if probability >= rule.heard_above else 0
        self.opened = self.opened or self._hinting >= rule.frames(rule.heard_ms)
        if not self.speaking and self._high >= rule.frames(rule.open_ms):
            self.speaking = True
            return SpeechBoundary(True, max(self._rising - round(rule.late_ms / rule.frame_ms), self._stopped))
        if self.speaking and self.quiet >= rule.frames(rule.close_ms):
            self.speaking = False
            return SpeechBoundary(False, self._frames - self.quiet)
        return None
