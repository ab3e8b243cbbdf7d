"""Counts whether the words that partials showed stayed, and whether stable text really stayed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamer.evaluate.word_timing import ShownWords, TimedEvent, TimePoint, shown_over_time

NO_WORDS: Final = ShownWords([], 0, TimePoint(0, 0.0))


@dataclass(frozen=True)
class PartialCounts:
    """Counts of shown and changed words, which can be added up.

    A word is shown when it appears at a position in its segment. It is changed when another word or nothing takes that
    position. If it comes back, it counts as shown once more.
    """

    shown: int = 0
    changed: int = 0
    broken: int = 0  # words that were stable and then changed, or were unstable again

    def __add__(self, other: PartialCounts) -> PartialCounts:
        return PartialCounts(self.shown + other.shown, self.changed + other.changed, self.broken + other.broken)


NOTHING_SHOWN: Final = PartialCounts()


def count_partials(events: Sequence[TimedEvent]) -> PartialCounts:
    """Return the counts of a session. Words that were shown but never became final count as changed."""
    found = NOTHING_SHOWN
    running: dict[int, ShownWords] = {}
    for event, seen in shown_over_time(events):
        before = running.pop(event["segment"], NO_WORDS)
        if event["type"] == "partial":
            running[event["segment"]] = seen
        found += _step(before, seen, partial=event["type"] == "partial")
    for left in running.values():
        found += _step(left, NO_WORDS, partial=False)
    return found


def _step(before: ShownWords, after: ShownWords, *, partial: bool) -> PartialCounts:
    kept = [mine == theirs for mine, theirs in zip(before.words, after.words)]  # noqa: B905 - as far as both go
    stable = sum(kept[: min(before.stable, after.stable)])
    return PartialCounts(
        shown=len(after.words) - sum(kept) if partial else 0,
        changed=len(before.words) - sum(kept),
        broken=before.stable - stable,
    )
