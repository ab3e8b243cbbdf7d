"""Compares the marks and capitals of transcripts with those of the references, where these have them. Pure.

Only words that were recognised right are compared, because no mark is certainly right after a wrong word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamer.commands.accuracy.manifest import normalise
from streamer.commands.accuracy.results import UtteranceResult
from streamer.commands.accuracy.word_errors import ALL, RIGHT, pair_words

COMMA, FULL_STOP, QUESTION, CAPITAL = KINDS = ("comma", "full stop", "question mark", "capital")
# Other marks count as the most similar one.
_MARKS: Final = {",": COMMA, ";": COMMA, ":": COMMA, ".": FULL_STOP, "!": FULL_STOP, "?": QUESTION}
_CLOSING: Final = "\"'\u2019\u201d)]"


class MarkedWord(NamedTuple):
    """A normalised word, the kind of mark after it (empty if none), and whether it has a capital (None: no letter)."""

    word: str
    mark: str
    capital: bool | None


@dataclass(frozen=True)
class MarkCounts:
    """How often a mark is in the references, in the transcripts, and in both at the same word."""

    expected: int = 0
    written: int = 0
    right: int = 0

    def __add__(self, other: MarkCounts) -> MarkCounts:
        return MarkCounts(self.expected + other.expected, self.written + other.written, self.right + other.right)

    @property
    def precision(self) -> float | None:
        """The part of the written ones that is right; None if there are none."""
        return self.right / self.written if self.written else None

    @property
    def recall(self) -> float | None:
        """The part of the expected ones that was written; None if there are none."""
        return self.right / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both; None if there is nothing to compare."""
        both = self.expected + self.written
        return 2 * self.right / both if both else None


def marked_words(texts: Iterable[str]) -> list[MarkedWord]:
    """Return the words of texts with their marks. A text of several words, such as a date, has one mark at its end."""
    marked = []
    for text in texts:
        words = normalise(text)
        last = text.rstrip(_CLOSING)[-1:]
        for place, word in enumerate(words, 1):
            capital = text.lstrip("\"'(\u201c\u2018")[:1].isupper() if len(words) == 1 and word[0].isalpha() else None
            marked.append(MarkedWord(word, _MARKS.get(last, "") if place == len(words) else "", capital))
    return marked


def mark_errors(results: Sequence[UtteranceResult]) -> dict[str, dict[str, MarkCounts]]:
    """Return the counts by corpus and kind, then of all corpora if several. Empty without marks in references."""
    corpora: dict[str, list[dict[str, MarkCounts]]] = {}
    for result in results:
        reference = marked_words(result.utterance.text.split())
        if not result.failure and any(word.mark for word in reference):
            corpora.setdefault(result.utterance.corpus, []).append(_count_marks(reference, _transcript_words(result)))
    corpora = dict(sorted(corpora.items()))
    if len(corpora) > 1:
        corpora[ALL] = [counts for group in corpora.values() for counts in group]
    return {
        name: {kind: sum((counts[kind] for counts in group), MarkCounts()) for kind in KINDS}
        for name, group in corpora.items()
    }


def _transcript_words(result: UtteranceResult) -> list[MarkedWord]:
    """Return the words of an utterance as they were spoken, with the marks and capitals of the transcript."""
    marked = []
    for word in result.timed_words:
        own = marked_words([word.written])
        capital = own[0].capital if len(own) == 1 and own[0].word == word.word else None
        marked.append(MarkedWord(word.word, own[-1].mark if own else "", capital))
    return marked


def _count_marks(reference: Sequence[MarkedWord], transcript: Sequence[MarkedWord]) -> dict[str, MarkCounts]:
    counts = dict.fromkeys(KINDS, MarkCounts())
    for pair in pair_words([word.word for word in reference], [word.word for word in transcript]):
        if pair.kind != RIGHT or pair.reference is None or pair.hypothesis is None:
            continue
        expected, actual = reference[pair.reference], transcript[pair.hypothesis]
        for kind in (COMMA, FULL_STOP, QUESTION):
            counts[kind] += _count(expected.mark == kind, actual.mark == kind)
        if expected.capital is not None and actual.capital is not None:
            counts[CAPITAL] += _count(expected.capital, actual.capital)
    return counts


def _count(expected: bool, written: bool) -> MarkCounts:
    return MarkCounts(int(expected), int(written), int(expected and written))
