"""Scores of marks and capitals: the F1 of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from streamer.engine.punctuation.marks import Case, Mark

CAPITAL = "capital"
KINDS = (Mark.COMMA.name, Mark.FULL_STOP.name, Mark.QUESTION.name, CAPITAL)


@dataclass(frozen=True)
class WrittenWord:
    """The mark after a word and whether it has a capital, at the start of a sentence too. None: unknown."""

    mark: Mark | None
    capital: bool | None


@dataclass
class MarkScores:
    """Counts by kind: right marks and capitals, all that were found, and all that should be found."""

    right: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)

    def add(self, found: WrittenWord, expected: WrittenWord) -> None:
        """Compare the answer for one word with its written form."""
        if expected.mark is not None and found.mark is not None:
            self._count(found.mark.name, expected.mark.name)
        if expected.capital is not None and found.capital is not None:
            self._count(CAPITAL if found.capital else "", CAPITAL if expected.capital else "")

    def f1(self, kind: str) -> float:
        """Return the harmonic mean of precision and recall; not a number if there is nothing to find."""
        if not self.expected[kind]:
            return float("nan")
        return 2 * self.right[kind] / (self.found[kind] + self.expected[kind])

    def _count(self, found: str, expected: str) -> None:
        self.found[found] += 1
        self.expected[expected] += 1
        self.right[found] += found == expected


def written_words(marks: Iterable[Mark | None], cases: Iterable[Case | None], begins: bool = True) -> list[WrittenWord]:
    """Return the words with their capitals: their own, and those after a mark that ends a sentence."""
    words = []
    for mark, case in zip(marks, cases, strict=True):
        capital = True if begins else None if case is None else case is not Case.LOWER
        words.append(WrittenWord(mark, capital))
        begins = mark is not None and mark.ends_sentence
    return words
