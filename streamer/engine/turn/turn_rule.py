"""How long a pause must be to end a turn, by the probability that the turn is over. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamer.limits import EAGERNESS, LONGEST_PAUSE_MS

UNKNOWN = 0.5
"""The probability where nothing judges the words: the silence alone decides."""

LOOK_MS = 160
"""A shorter pause is not judged: it may be within a word."""

FLUENT_MS = 2000
"""After so much speech without a pause, nobody is thought to be hesitating any more."""

EAGER_OVER = 0.5
"""A pause is announced as the probable end of a turn from this probability on."""


@dataclass(frozen=True)
class Patience:
    """The pause that ends a turn: `surely_ms` where the words are as good as complete, and longer where they are not.

    It grows by `doubt_ms` for each unit by which the logarithm of the odds that the turn is over is below `sure`.
    """

    surely_ms: int
    doubt_ms: int
    sure: float

    def pause_ms(self, over: float, spoken_ms: float | None) -> float:
        """The pause that ends a turn which is over with this probability.

        `spoken_ms`: the time from the pause before to this one, None without one. A speaker who has paused a short time
        ago looks for words, or reads aloud, and will rather pause again. So the odds are lower.
        """
        odds = math.log(max(over, 1e-6) / max(1 - over, 1e-6))
        if spoken_ms is not None:
            odds += min(0.0, math.log((spoken_ms + 100) / (FLUENT_MS + 100)))
        return self.surely_ms + self.doubt_ms * max(0.0, self.sure - odds)


# Chosen on the first half of the turns of scripts/measure/turns.py.
PATIENCE = {
    "low": Patience(680, 450, 2.0),
    "medium": Patience(360, 450, 2.0),
    "high": Patience(240, 450, 1.2),
}


@dataclass(frozen=True)
class TurnRule:
    """The pause that ends a turn: never longer than `longest_pause_ms`."""

    eagerness: str = EAGERNESS
    longest_pause_ms: int = LONGEST_PAUSE_MS

    def pause_ms(self, over: float, spoken_ms: float | None = None) -> int:
        """The pause that ends a turn which is over with this probability, so long after the pause before."""
        return round(min(PATIENCE[self.eagerness].pause_ms(over, spoken_ms), self.longest_pause_ms))
