"""Measures how much of a beam agreed on each word of its best hypothesis while the word could still change.

The share of a word is the part of the mass that belongs to hypotheses with the word at about the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from streamer.engine.search.search import HypothesisWord

_RECENT = 24  # how many of the last notes are searched for a word; there are never more unsettled words
_NEGLIGIBLE = 1e-4  # hypotheses that are less likely than this part of the likeliest do not count


class WordAgreement:
    """The shares of words, collected step by step, because the last beam no longer has other words than the settled."""

    def __init__(self) -> None:
        self._notes: list[tuple[HypothesisWord, float, int]] = []  # word, sum of its shares, number of steps
        self._by_text: dict[str, list[int]] = {}  # the indices of the notes with a text

    def note(self, rows: Sequence[tuple[HypothesisWord, ...]], masses: Sequence[float]) -> None:
        """Note a step: the unsettled words of every hypothesis, those of the best one first, and the mass of each."""
        if not rows[0]:
            return
        least = _NEGLIGIBLE * max(masses)
        distinct: dict[int, tuple[HypothesisWord, ...]] = {}
        mass_of: dict[int, float] = {}
        for words, mass in zip(rows, masses, strict=True):
            if mass > least:
                distinct[id(words)] = words
                mass_of[id(words)] = mass_of.get(id(words), 0.0) + mass
        shares = AgreementShares(zip(distinct.values(), mass_of.values(), strict=True), {word.text for word in rows[0]})
        for word in rows[0]:
            share, index = shares.of(word), self._index_of(word)
            if index is None:
                self._by_text.setdefault(word.text, []).append(len(self._notes))
                self._notes.append((word, share, 1))
            else:
                _, total, steps = self._notes[index]
                self._notes[index] = word, total + share, steps + 1

    def of(self, word: HypothesisWord, now: float) -> float:
        """Return the mean share of a word over the steps in which it was open, with its share `now`."""
        index = self._index_of(word, everywhere=True)
        _, total, steps = self._notes[index] if index is not None else (word, 0.0, 0)
        return min((total + now) / (steps + 1), 1.0)

    def _index_of(self, word: HypothesisWord, everywhere: bool = False) -> int | None:
        first = 0 if everywhere else max(0, len(self._notes) - _RECENT)
        for index in reversed(self._by_text.get(word.text, ())):
            if index < first:
                break
            if is_same_word(self._notes[index][0], word):
                return index
        return None


def is_same_word(one: HypothesisWord, other: HypothesisWord) -> bool:
    """Return whether both have the same text and overlap in time."""
    return one.text == other.text and one.start < other.end and other.start < one.end


class AgreementShares:
    """The shares of words among some hypotheses."""

    def __init__(
        self, hypotheses: Iterable[tuple[Sequence[HypothesisWord], float]], texts: Collection[str] | None = None
    ) -> None:
        """`texts` has the texts of the words that `of` is called for; None if they are not known."""
        self._masses: list[float] = []
        self._having: dict[str, dict[tuple[int, int], list[int]]] = {}  # the hypotheses by text and time
        self._shares: dict[tuple[str, int, int], float] = {}
        for number, (words, mass) in enumerate(hypotheses):
            self._masses.append(mass)
            for word in words:
                if texts is not None and word.text not in texts:
                    continue
                self._having.setdefault(word.text, {}).setdefault((word.start, word.end), []).append(number)
        self._total = sum(self._masses)

    def of(self, word: HypothesisWord) -> float:
        """Return the share of this word."""
        key = word.text, word.start, word.end
        if key not in self._shares:
            having: set[int] = set()
            for (start, end), numbers in self._having.get(word.text, {}).items():
                if word.start < end and start < word.end:
                    having.update(numbers)
            mass = sum(self._masses[number] for number in sorted(having))
            self._shares[key] = mass / self._total if self._total else 0.0
        return self._shares[key]
