"""Counts how many words of partials changed later, and whether stable text changed. Pure."""

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
    counts = NOTHING_SHOWN
    running: dict[int, ShownWords] = {}
    for event, now in shown_over_time(events):
        before = running.pop(event["segment"], NO_WORDS)
        if event["type"] == "partial":
            running[event["segment"]] = now
        counts += _step(before, now, partial=event["type"] == "partial")
    for words in running.values():
        counts += _step(words, NO_WORDS, partial=False)
    return counts


def _step(before: ShownWords, after: ShownWords, *, partial: bool) -> PartialCounts:
    same = [mine == theirs for mine, theirs in zip(before.words, after.words)]  # noqa: B905 - as far as both go
    stable = sum(same[: min(before.stable, after.stable)])
    return PartialCounts(
        shown=len(after.words) - sum(same) if partial else 0,
        changed=len(before.words) - sum(same),
        broken=before.stable - stable,
    )
