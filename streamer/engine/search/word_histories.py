"""The histories of a beam: the words of every hypothesis. The rows of the beam have only their hashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamer.engine.search.search import HypothesisWord

NO_HISTORY = -1

EndedWord = tuple[int, HypothesisWord]
"""The history before a word that ended in a step, and the word. The history is a row of the beam before the step, or
the size of the beam plus the number of another word that ended in the same step."""


class WordHistories:
    """The words of every row of a beam. The words with which all rows begin are settled, and stored once.

    Only words of living hypotheses are stored, so the size depends on the beam and the length of the segment.
    """

    def __init__(self, beam: int) -> None:
        self.settled: list[HypothesisWord] = []
        self.open: list[tuple[HypothesisWord, ...]] = [()] * beam

    def follow(self, rows: Sequence[int], ended: Callable[[int], EndedWord]) -> None:
        """Follow a step of the beam. `rows` has the history that each row continues; NO_HISTORY for a dead row."""
        beam = len(self.open)
        words_of: dict[int, tuple[HypothesisWord, ...]] = {NO_HISTORY: ()}
        distinct = dict.fromkeys(rows)  # many rows have the same history
        for history in distinct:
            new_words = []
            while history >= beam and history not in words_of:
                new_words.append((history, ended(history - beam)))
                history = new_words[-1][1][0]
            words = words_of[history] if history in words_of else self.open[history]
            words_of[history] = words
            for number, (_, word) in reversed(new_words):
                words_of[number] = words = (*words, word)
        count = _common([words_of[history] for history in distinct if history != NO_HISTORY])
        self.settled += words_of[rows[0]][:count]
        # Rows with the same history share one tuple, so that later code handles it once.
        rest = {history: words_of[history][count:] for history in distinct}
        self.open = [rest[history] for history in rows]

    def settle(self, count: int) -> list[int]:
        """Settle `count` more words of the first row. Drop the words of rows that begin otherwise, and return these."""
        texts = [word.text for word in self.open[0][:count]]
        different = [row for row, words in enumerate(self.open) if [word.text for word in words[:count]] != texts]
        self.settled += self.open[0][:count]
        self.open = [words[count:] for words in self.open]
        for row in different:
            self.open[row] = ()
        return different

    def reorder(self, rows: Sequence[int]) -> None:
        """Put the rows into this order."""
        self.open = [self.open[row] for row in rows]

    def words(self, row: int) -> tuple[HypothesisWord, ...]:
        """Return all words of a row."""
        return (*self.settled, *self.open[row])


def _common(histories: Sequence[tuple[HypothesisWord, ...]]) -> int:
    """Return the number of words with which all of these begin."""
    if not histories:
        return 0
    for count, word in enumerate(histories[0]):
        if any(len(words) <= count or words[count].text != word.text for words in histories):
            return count
    return len(histories[0])
