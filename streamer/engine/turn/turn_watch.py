"""Follows the pauses of one stream, and decides how long a pause ends the turn, and what the client learns of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum

from streamer.engine.search.search import Hypothesis, HypothesisWord
from streamer.engine.turn.turn_rule import EAGER_OVER, LOOK_MS, UNKNOWN, TurnRule

Judge = Callable[[Sequence[str]], float]
"""Returns the probability that a turn is over after these words."""


def frames_to_end(pause_ms: float, paused_ms: float, frame_ms: float, step_frames: int) -> int:
    """Return how many more frames of silence end a turn if a pause of `pause_ms` ends it, after `paused_ms` of pause.

    Return 0 if the turn does not end before the end of the next step.
    """
    frames = math.ceil((pause_ms - paused_ms) / frame_ms)
    return frames if 0 < frames < step_frames else 0


class TurnState(str, Enum):
    """The state of a turn in events."""

    EAGER = "eager"  # it is probably over, but the pause is not long enough yet
    RESUMED = "resumed"  # it was reported as probably over, but goes on
    END = "end"


class TurnWatch:
    """Judges the pauses of one stream."""

    def __init__(self, rule: TurnRule, judge: Judge | None = None) -> None:
        """Without `judge`, the words have no effect, and every turn ends after the same silence."""
        self.over = UNKNOWN  # the last probability that the turn is over
        self._rule = rule
        self._judge = judge
        self._words: list[str] = []  # the words of the last judgement
        self._worded = False  # whether the pause follows a word
        self._eager = False  # whether the client was told that the turn is probably over

    def pause_ms(
        self,
        hypothesis: Hypothesis,
        paused_ms: float,
        finish: Callable[[], Sequence[HypothesisWord]],
        spoken_ms: float | None = None,
    ) -> int | None:
        """Return the pause that ends the turn; None if the present pause is too short to judge, or follows no word.

        `finish` returns the words if the segment ended here, which takes some time. `spoken_ms` is the time from the
        previous pause to this one, if there was one and the activity is known.
        """
        if paused_ms < LOOK_MS or not (hypothesis.words or hypothesis.running):
            self._worded = False
            return None
        # The words of `finish` are used only if the hypothesis has no whole word yet. They are chosen as a complete
        # sentence, so they show less well whether something is missing.
        words = [word.text for word in hypothesis.words or finish()]
        if words != self._words:
            self._words = words
            self.over = self._judge(words) if self._judge and words else UNKNOWN
        self._worded = bool(self._words)
        return self._rule.pause_ms(self.over, spoken_ms) if self._worded else None

    def go_on(self, paused_ms: float) -> TurnState | None:
        """Note that a pause of this length has not ended the turn. Return the new state if it has changed."""
        pausing = paused_ms >= LOOK_MS and self._worded
        if self._eager and not pausing:
            self._eager = False
            return TurnState.RESUMED
        if not self._eager and pausing and self.over >= EAGER_OVER:
            self._eager = True
            return TurnState.EAGER
        return None

    def begin(self) -> TurnState | None:
        """Begin another segment. Return the state to report if the last segment has not ended in a pause."""
        eager = self._eager
        self._eager, self._worded, self._words = False, False, []
        return TurnState.RESUMED if eager else None
