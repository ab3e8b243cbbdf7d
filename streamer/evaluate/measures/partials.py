"""What became of the words that partials showed: whether they stayed, and whether stable text kept its word. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamer.evaluate.emission import Arrival, Moment, View, views

NOTHING: Final = View([], 0, Moment(0, 0.0))


@dataclass(frozen=True)
class Showings:
    """Counts that can be added up.

    A word is shown when it appears in a place of its segment, and changed when it leaves that place: for another word,
    or for nothing. If it comes back it is shown once more.
    """

    shown: int = 0
    changed: int = 0
    broken: int = 0  # words that were called stable and were changed, or called unstable again

    def __add__(self, other: Showings) -> Showings:
        return Showings(self.shown + other.shown, self.changed + other.changed, self.broken + other.broken)


NOTHING_SHOWN: Final = Showings()


def showings(arrivals: Sequence[Arrival]) -> Showings:
    """Of all partials of a session; what was shown and never became final was changed too."""
    found = NOTHING_SHOWN
    running: dict[int, View] = {}
    for event, seen in views(arrivals):
        before = running.pop(event["segment"], NOTHING)
        if event["type"] == "partial":
            running[event["segment"]] = seen
        found += _step(before, seen, partial=event["type"] == "partial")
    for left in running.values():
        found += _step(left, NOTHING, partial=False)
    return found


def _step(before: View, after: View, *, partial: bool) -> Showings:
    kept = [mine == theirs for mine, theirs in zip(before.words, after.words)]  # noqa: B905 - as far as both go
    stable = sum(kept[: min(before.stable, after.stable)])
    return Showings(
        shown=len(after.words) - sum(kept) if partial else 0,
        changed=len(before.words) - sum(kept),
        broken=before.stable - stable,
    )
