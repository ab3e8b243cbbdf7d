"""How much of a beam agreed on each word of its best hypothesis while the word could still change.

The share of a word is the part of the mass of all hypotheses that have the word at about the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamer.engine.search.search import HypothesisWord

_RECENT = 24  # how many of the last entries are searched for a word; more words are never open at once


class WordAgreement:
    """The shares of words, collected step by step, because the last beam says nothing about words settled before."""

    def __init__(self) -> None:
        self._notes: list[tuple[HypothesisWord, float, int]] = []  # word, sum of its shares, number of steps

    def note(self, rows: Sequence[tuple[HypothesisWord, ...]], masses: Sequence[float]) -> None:
        """Note a step: the unsettled words of every hypothesis, those of the best one first, and the mass of each."""
        if not rows[0]:
            return
        alike: dict[int, tuple[tuple[HypothesisWord, ...], float]] = {}
        for words, mass in zip(rows, masses, strict=True):
            if mass:
                alike[id(words)] = words, alike.get(id(words), (words, 0.0))[1] + mass
        for word, share in zip(rows[0], agreement_shares(rows[0], alike.values()), strict=True):
            index = self._index_of(word)
            if index is None:
                self._notes.append((word, share, 1))
            else:
                _, total, steps = self._notes[index]
                self._notes[index] = word, total + share, steps + 1

    def of(self, word: HypothesisWord, now: float) -> float:
        """The mean share of a word over the steps in which it was open, and its share now."""
        index = self._index_of(word, everywhere=True)
        _, total, steps = self._notes[index] if index is not None else (word, 0.0, 0)
        return min((total + now) / (steps + 1), 1.0)

    def _index_of(self, word: HypothesisWord, everywhere: bool = False) -> int | None:
        first = 0 if everywhere else max(0, len(self._notes) - _RECENT)
        for index in range(len(self._notes) - 1, first - 1, -1):
            if is_same_word(self._notes[index][0], word):
                return index
        return None


def is_same_word(one: HypothesisWord, other: HypothesisWord) -> bool:
    """Whether both have the same text and overlap in time."""
    return one.text == other.text and one.start < other.end and other.start < one.end


def agreement_shares(
    words: Sequence[HypothesisWord], hypotheses: Iterable[tuple[Sequence[HypothesisWord], float]]
) -> list[float]:
    """For each of these words the part of the mass of the hypotheses that have it at about the same time."""
    found, total = [0.0] * len(words), 0.0
    for others, mass in hypotheses:
        total += mass
        for index, word in enumerate(words):
            if any(is_same_word(word, other) for other in others):
                found[index] += mass
    return [share / total for share in found] if total else found
