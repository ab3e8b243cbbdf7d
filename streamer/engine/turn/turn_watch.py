"""Follows the pauses of one stream: how long a pause ends the turn, and what is said about it meanwhile. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.engine.turn.turn_rule import EAGER_OVER, LOOK_MS, UNKNOWN, TurnRule

Judge = Callable[[Sequence[str]], float]
"""How likely it is that a turn is over after these words."""


def frames_to_end(pause_ms: float, paused_ms: float, frame_ms: float, step_frames: int) -> int:
    """How many more frames of silence end a turn that a pause of `pause_ms` ends, after `paused_ms` of it.

    0 if it does not end before the next step does.
    """
    frames = math.ceil((pause_ms - paused_ms) / frame_ms)
    return frames if 0 < frames < step_frames else 0


class TurnState(str, Enum):
    """What is said about a turn."""

    EAGER = "eager"  # it is probably over, but the pause is not long enough yet
    RESUMED = "resumed"  # it was said to be probably over, and goes on
    END = "end"


class TurnWatch:
    """Judges the pauses of one stream."""

    def __init__(self, rule: TurnRule, judge: Judge | None = None) -> None:
        """Without `judge`, the words are unknown, and every turn ends after the same silence."""
        self.over = UNKNOWN  # the probability that the turn is over, as judged last
        self._rule = rule
        self._judge = judge
        self._words: list[str] = []  # those that were judged
        self._worded = False  # the pause follows a word
        self._eager = False  # the client was told that the turn is probably over

    def pause_ms(
        self,
        found: Hypothesis,
        paused_ms: float,
        finish: Callable[[], Sequence[HypothesisWord]],
        spoken_ms: float | None = None,
    ) -> int | None:
        """The pause that ends the turn. None if the present one is too short to judge, or follows no word.

        `finish` gives the words if the segment ended here, which takes some time. `spoken_ms`: the time from the pause
        before to this one, if there was one and the activity is known.
        """
        if paused_ms < LOOK_MS or not (found.words or found.running):
            self._worded = False
            return None
        # The words of `finish` are chosen to be a complete sentence, so they say less about what is missing. They are
        # asked for only where a single word is not identified yet.
        words = [word.text for word in found.words or finish()]
        if words != self._words:
            self._words = words
            self.over = self._judge(words) if self._judge and words else UNKNOWN
        self._worded = bool(self._words)
        return self._rule.pause_ms(self.over, spoken_ms) if self._worded else None

    def go_on(self, paused_ms: float) -> TurnState | None:
        """The turn has not ended, after such a pause. Returns what has changed."""
        pausing = paused_ms >= LOOK_MS and self._worded
        if self._eager and not pausing:
            self._eager = False
            return TurnState.RESUMED
        if not self._eager and pausing and self.over >= EAGER_OVER:
            self._eager = True
            return TurnState.EAGER
        return None

    def begin(self) -> TurnState | None:
        """Another segment begins. Returns what is to be said if the one before has not ended in a pause."""
        eager = self._eager
        self._eager, self._worded, self._words = False, False, []
        return TurnState.RESUMED if eager else None
