"""How long to wait for an answer of one Triton, judged by how long its recent answers took, and doubts about it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

# An answer is overdue after so many times the slowest recent answer, within these limits. A busy machine is slow for
# every request. A machine that was quick a moment ago and does not answer now hangs.
SLOWER: Final = 5.0
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 30.0
LATELY_S: Final = 30.0
# For a stream whose hotwords have to be prepared. After 10 s the model itself gives up.
PREPARING_S: Final = 15.0
# Two doubts within this time count as a failure, whatever a probe says: it may have missed the failing instance.
DOUBT_S: Final = 60.0


class Patience:
    """The limit for an answer. It follows the slowest answer of the last 30 to 60 seconds."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._slowest = (LONGEST_S, LONGEST_S)  # in the period before, and in this one

    def note(self, seconds: float, now: float) -> None:
        """Note that an answer took so long."""
        before, present = self._slowest
        if now - self._since > LATELY_S:
            known = self._since > float("-inf")
            self._since, before, present = now, present if known else 0.0, 0.0
        self._slowest = before, max(present, seconds)

    @property
    def limit_s(self) -> float:
        """The time after which an answer is overdue."""
        return min(max(SHORTEST_S, SLOWER * max(self._slowest)), LONGEST_S)


class Doubts:
    """Whether requests have raised doubts about an upstream, and when a doubt last counted."""

    def __init__(self) -> None:
        self.raised = asyncio.Event()
        self._at = float("-inf")

    def again(self) -> bool:
        """Count a doubt. Returns whether the one before was within DOUBT_S."""
        last, self._at = self._at, time.monotonic()
        return self._at - last < DOUBT_S
