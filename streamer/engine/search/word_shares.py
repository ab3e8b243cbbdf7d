"""How much of a beam had each word of its best hypothesis while that could still change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamer.engine.search.search import Word

_RECENT = 24  # notes that are looked through for a word: more are never open at a time


class WordShares:
    """What a slot's beam believed, step by step: of a settled word the beam of the end tells nothing any more."""

    def __init__(self) -> None:
        self._notes: list[tuple[Word, float, int]] = []  # a word, the sum of its shares, over so many steps

    def note(self, rows: Sequence[tuple[Word, ...]], masses: Sequence[float]) -> None:
        """A step: the words of every hypothesis that are not settled yet, the best one's first, and their masses."""
        if not rows[0]:
            return
        alike: dict[int, tuple[tuple[Word, ...], float]] = {}
        for words, mass in zip(rows, masses, strict=True):
            if mass:
                alike[id(words)] = words, alike.get(id(words), (words, 0.0))[1] + mass
        for word, share in zip(rows[0], shares(rows[0], alike.values()), strict=True):
            place = self._place(word)
            if place is None:
                self._notes.append((word, share, 1))
            else:
                _, total, steps = self._notes[place]
                self._notes[place] = word, total + share, steps + 1

    def of(self, word: Word, now: float) -> float:
        """The mean share of a word: over the steps in which it was open, and now."""
        place = self._place(word, everywhere=True)
        _, total, steps = self._notes[place] if place is not None else (word, 0.0, 0)
        return min((total + now) / (steps + 1), 1.0)

    def _place(self, word: Word, everywhere: bool = False) -> int | None:
        first = 0 if everywhere else max(0, len(self._notes) - _RECENT)
        for place in range(len(self._notes) - 1, first - 1, -1):
            if same(self._notes[place][0], word):
                return place
        return None


def same(one: Word, other: Word) -> bool:
    """Whether both are one word of the audio."""
    return one.text == other.text and one.start < other.end and other.start < one.end


def shares(words: Sequence[Word], hypotheses: Iterable[tuple[Sequence[Word], float]]) -> list[float]:
    """The part of the hypotheses' mass that has each of these words, about there."""
    found, total = [0.0] * len(words), 0.0
    for others, mass in hypotheses:
        total += mass
        for place, word in enumerate(words):
            if any(same(word, other) for other in others):
                found[place] += mass
    return [share / total for share in found] if total else found
