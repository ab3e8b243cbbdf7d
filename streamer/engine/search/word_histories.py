"""The word histories of a beam: the words of every hypothesis, which the tensors of the beam know only as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.engine.search.search import HypothesisWord

NO_HISTORY = -1

EndedWord = tuple[int, HypothesisWord]
"""The history before a word that ended in a step, and the word. The history is a row of the beam before the step, or
the size of the beam plus the number of another word that ended in the same step."""


class WordHistories:
    """The words of every row of a beam. Words that all rows begin with are settled, and kept once.

    Only words of living hypotheses are kept, so the size is bounded by the beam and the words of the segment.
    """

    def __init__(self, beam: int) -> None:
        self.settled: list[HypothesisWord] = []
        self.open: list[tuple[HypothesisWord, ...]] = [()] * beam

    def follow(self, rows: Sequence[int], ended: Callable[[int], EndedWord]) -> None:
        """Follow a step of the beam: `rows` says which history each row continues, NO_HISTORY for a dead row."""
        beam = len(self.open)
        known: dict[int, tuple[HypothesisWord, ...]] = {NO_HISTORY: ()}
        distinct = dict.fromkeys(rows)  # many rows have the same history
        for history in distinct:
            missing = []
            while history >= beam and history not in known:
                missing.append((history, ended(history - beam)))
                history = missing[-1][1][0]
            words = known[history] if history in known else self.open[history]
            known[history] = words
            for number, (_, word) in reversed(missing):
                known[number] = words = (*words, word)
        count = _common([known[history] for history in distinct if history != NO_HISTORY])
        self.settled += known[rows[0]][:count]
        # Rows with the same history go on sharing it, so that what follows handles it once.
        left = {history: known[history][count:] for history in distinct}
        self.open = [left[history] for history in rows]

    def settle(self, count: int) -> list[int]:
        """Settle `count` more words of the first row. Returns the rows that begin otherwise; their words are gone."""
        texts = [word.text for word in self.open[0][:count]]
        apart = [row for row, words in enumerate(self.open) if [word.text for word in words[:count]] != texts]
        self.settled += self.open[0][:count]
        self.open = [words[count:] for words in self.open]
        for row in apart:
            self.open[row] = ()
        return apart

    def reorder(self, rows: Sequence[int]) -> None:
        """Put the rows into this order."""
        self.open = [self.open[row] for row in rows]

    def words(self, row: int) -> tuple[HypothesisWord, ...]:
        """All words of a row."""
        return (*self.settled, *self.open[row])


def _common(found: Sequence[tuple[HypothesisWord, ...]]) -> int:
    """With how many common words all of these begin."""
    if not found:
        return 0
    for count, word in enumerate(found[0]):
        if any(len(words) <= count or words[count].text != word.text for words in found):
            return count
    return len(found[0])
