"""How long a pause must be to end a turn, by the probability that the turn is over. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamer.limits import EAGERNESS, LONGEST_PAUSE_MS

UNKNOWN = 0.5
"""The probability where nothing judges the words: the silence alone decides."""

LOOK_MS = 160
"""A shorter pause is not judged: it may be within a word."""

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

    def pause_ms(self, over: float) -> float:
        """The pause that ends a turn which is over with this probability."""
        odds = math.log(max(over, 1e-6) / max(1 - over, 1e-6))
        return self.surely_ms + self.doubt_ms * max(0.0, self.sure - odds)


# Chosen on dev by scripts/measure/turns.py.
PATIENCE = {
    "low": Patience(480, 600, 2.5),
    "medium": Patience(240, 600, 2.0),
    "high": Patience(160, 600, 1.5),
}


@dataclass(frozen=True)
class TurnRule:
    """The pause that ends a turn: never longer than `longest_pause_ms`."""

    eagerness: str = EAGERNESS
    longest_pause_ms: int = LONGEST_PAUSE_MS

    def pause_ms(self, over: float) -> int:
        """The pause that ends a turn which is over with this probability."""
        return round(min(PATIENCE[self.eagerness].pause_ms(over), self.longest_pause_ms))
