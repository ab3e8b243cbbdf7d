"""The marks and capitals of the words of one stream. They come from the punctuation model.

The answer of the model for a word depends on a few words before and after it, also across cuts. So the last words
before a cut are stored. A stream that goes on from the cut needs them as its context.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from streamer.base.limits import LONGEST_CONTEXT_PAUSE_MS, LONGEST_CONTEXT_WORD, MOST_CONTEXT_WORDS
from streamer.engine.text.marks import HeardWord, MarkedWord

T = TypeVar("T")
Window = tuple[HeardWord, ...]
Asking = Generator[Sequence[Window], Sequence[Sequence[MarkedWord]], T]
"""Work that needs the punctuation model at most once. It yields windows, and gets the answers for them."""


@dataclass(frozen=True)
class SegmentWords:
    """The words of the running segment, and the silence between its start and the first of them."""

    before_ms: int
    words: Window


NO_WORDS = SegmentWords(0, ())


class SentenceMarks:
    """Decides the marks of a stream, segment by segment."""

    def __init__(self, behind: int, ahead: int, context: Sequence[HeardWord] = ()) -> None:
        """`behind` and `ahead` are the properties of the model. `context` has the last words before this stream."""
        self._behind = min(behind, MOST_CONTEXT_WORDS)
        self._ahead = ahead
        self._context = tuple(context)[-self._behind :]
        self._decided: list[MarkedWord] = []  # of the running segment
        self._last_reading: tuple[SegmentWords, list[MarkedWord]] = (NO_WORDS, [])  # the last words, and their marks

    @property
    def context(self) -> Window:
        """The last words before the running segment. The pause after the last word lasts until the segment starts."""
        return self._context

    @property
    def decided(self) -> int:
        """How many words of the running segment have marks that will not change."""
        return len(self._decided)

    def read(self, segment: SegmentWords, stable: int) -> Asking[list[MarkedWord]]:
        """Return the marks of all words of the segment so far. The first `stable` words will not change."""
        first, marks = len(self._decided), self._decided
        if segment == self._last_reading[0]:
            marks = self._last_reading[1]
        elif len(segment.words) > first:
            [answer] = yield [self._window(segment, first)]
            marks = marks + _answer(answer, segment, first)
        self._last_reading = segment, marks
        self._decided = marks[: max(first, stable - self._ahead)]
        return marks

    def end(
        self, segment: SegmentWords, others: Sequence[SegmentWords]
    ) -> Asking[tuple[list[MarkedWord], list[list[MarkedWord]]]]:
        """Return the marks of all words of a segment that has ended, and the marks of its alternatives.

        The alternatives mostly begin like the segment, and the model reads only the rest of them.
        """
        first = len(self._decided)
        shared = [max(0, _common(segment.words, other.words) - self._ahead) for other in others]
        rests = [self._window(other, count) for other, count in zip(others, shared, strict=True)]
        answer_of_segment, *answers = yield [self._window(segment, first), *rests]
        marks = self._decided + _answer(answer_of_segment, segment, first)
        return marks, [
            marks[:count] + _answer(answer, other, count)
            for answer, other, count in zip(answers, others, shared, strict=True)
        ]

    def cut(self, segment: SegmentWords, length_ms: int) -> None:
        """End the running segment. Its length is silence if it has no words."""
        line = self._line(segment)[-self._behind :]
        if line and not segment.words:
            line = (*line[:-1], _longer(line[-1], length_ms))
        self._context = tuple(map(_bounded, line))
        self._decided, self._last_reading = [], (NO_WORDS, [])

    def _window(self, segment: SegmentWords, first: int) -> Window:
        """Return the words of the segment from `first` on, after as many earlier words as the model sees."""
        return self._line(segment)[max(0, len(self._context) + first - self._behind) :]

    def _line(self, segment: SegmentWords) -> Window:
        if not segment.words or not self._context:
            return (*self._context, *segment.words)
        return (*self._context[:-1], _longer(self._context[-1], segment.before_ms), *segment.words)


def _bounded(word: HeardWord) -> HeardWord:
    pause_ms = min(word.pause_ms or 0, LONGEST_CONTEXT_PAUSE_MS)
    return HeardWord(word.word[:LONGEST_CONTEXT_WORD], pause_ms)


def _longer(word: HeardWord, silent_ms: int) -> HeardWord:
    return _bounded(replace(word, pause_ms=(word.pause_ms or 0) + silent_ms))


def _common(one: Window, other: Window) -> int:
    """Return the number of words with which both begin."""
    for count, (word, other_word) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if word != other_word:
            return count
    return min(len(one), len(other))


def _answer(marks: Sequence[MarkedWord], segment: SegmentWords, first: int) -> list[MarkedWord]:
    """Return the marks of the words of the segment from `first` on, from the answer for their window."""
    return list(marks[len(marks) - len(segment.words) + first :])
