"""How long to wait for an answer of one Triton, from how long its answers took of late."""

from __future__ import annotations

from typing import Final

# An answer is overdue after this: so many times what the slowest took of late, and within these limits. A machine that
# is busy is slow for everybody; one that was quick a moment ago and says nothing hangs.
SLOWER: Final = 5.0
SHORTEST_S: Final = 5.0
LONGEST_S: Final = 30.0
LATELY_S: Final = 30.0
# For a stream whose hotwords have to be prepared: after 10 s of that the model itself says that there is no time.
PREPARING_S: Final = 15.0


class Patience:
    """Grows and shrinks with the slowest answers of the last half minute to minute."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._slowest = (LONGEST_S, LONGEST_S)  # before this period, and in it

    def note(self, seconds: float, now: float) -> None:
        """An answer took so long."""
        before, present = self._slowest
        if now - self._since > LATELY_S:
            known = self._since > float("-inf")
            self._since, before, present = now, present if known else 0.0, 0.0
        self._slowest = before, max(present, seconds)

    @property
    def limit_s(self) -> float:
        """After so long an answer is overdue."""
        return min(max(SHORTEST_S, SLOWER * max(self._slowest)), LONGEST_S)
