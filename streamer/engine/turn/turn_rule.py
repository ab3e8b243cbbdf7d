"""Decides how long a pause must be to end a turn, from the probability that the turn is over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamer.limits import EAGERNESS, LONGEST_PAUSE_MS

UNKNOWN = 0.5
"""The probability without a judge of the words. Then only the silence decides."""

LOOK_MS = 160
"""A shorter pause is not judged, because it may be within a word."""

FLUENT_MS = 2000
"""After this much speech without a pause, the speaker does not count as hesitating."""

EAGER_OVER = 0.5
"""From this probability on, a pause is reported as the probable end of a turn."""


@dataclass(frozen=True)
class Patience:
    """The pause that ends a turn. It is `surely_ms` if the words are almost certainly complete.

    Otherwise it is longer by `doubt_ms` for each unit by which the log-odds that the turn is over are below `sure`.
    """

    surely_ms: int
    doubt_ms: int
    sure: float

    def pause_ms(self, over: float, spoken_ms: float | None) -> float:
        """Return the pause that ends a turn which is over with this probability.

        `spoken_ms` is the time from the previous pause to this one; None without a previous pause. A speaker who has
        paused a short time ago is looking for words, or reads aloud, and will probably pause again. So the odds are
        lower.
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
    """The pause that ends a turn for the options of a stream. It is never longer than `longest_pause_ms`."""

    eagerness: str = EAGERNESS
    longest_pause_ms: int = LONGEST_PAUSE_MS

    def pause_ms(self, over: float, spoken_ms: float | None = None) -> int:
        """Return the pause that ends a turn which is over with this probability, this long after the last pause."""
        return round(min(PATIENCE[self.eagerness].pause_ms(over, spoken_ms), self.longest_pause_ms))
