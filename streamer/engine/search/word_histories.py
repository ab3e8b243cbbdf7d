"""The words of a slot's hypotheses: what a beam that keeps only numbers has said so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.engine.search.search import Word

NOWHERE = -1

Ended = tuple[int, Word]
"""A word that ended in a step, and where its history goes on: a row of the beam before the step, or behind those the
number of another word that ended in it."""


class WordHistories:
    """The words of every row of a beam; those that all rows have in common are settled and kept once.

    Only what a living hypothesis leads to is kept, so the size is bounded by the beam and the words of the segment.
    """

    def __init__(self, beam: int) -> None:
        self.settled: list[Word] = []
        self.open: list[tuple[Word, ...]] = [()] * beam

    def follow(self, rows: Sequence[int], ended: Callable[[int], Ended]) -> None:
        """Go on with a step: where the history of each row is to be found, NOWHERE for the dead."""
        beam = len(self.open)
        known = dict(enumerate(self.open))
        known[NOWHERE] = ()
        for place in set(rows):
            missing = []
            while place not in known:
                missing.append((place, ended(place - beam)))
                place = missing[-1][1][0]
            words = known[place]
            for number, (_, word) in reversed(missing):
                known[number] = words = (*words, word)
        self.open = [known[place] for place in rows]
        count = _common([words for words, place in zip(self.open, rows, strict=True) if place != NOWHERE])
        if count:
            self.settled += self.open[0][:count]
            self.open = [words[count:] for words in self.open]

    def settle(self, count: int) -> list[int]:
        """Settle so many more words of the first row; the rows that do not begin with them are no longer, and told."""
        texts = [word.text for word in self.open[0][:count]]
        apart = [row for row, words in enumerate(self.open) if [word.text for word in words[:count]] != texts]
        self.settled += self.open[0][:count]
        self.open = [words[count:] for words in self.open]
        for row in apart:
            self.open[row] = ()
        return apart

    def words(self, row: int) -> tuple[Word, ...]:
        """All words of a row."""
        return (*self.settled, *self.open[row])


def _common(found: Sequence[tuple[Word, ...]]) -> int:
    """How many words all of these begin with."""
    if not found:
        return 0
    for count, word in enumerate(found[0]):
        if any(len(words) <= count or words[count].text != word.text for words in found):
            return count
    return len(found[0])
