"""The marks and capitals of one stream's words: what the punctuation model is asked, and what it has decided. Pure.

The model answers for a word from a few words before and after it, also across cuts. So the last words before a cut are
kept. A stream that goes on from the cut needs them as its context.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from streamer.engine.punctuation.marks import HeardWord, MarkedWord
from streamer.limits import LONGEST_CONTEXT_PAUSE_MS, LONGEST_CONTEXT_WORD, MOST_CONTEXT_WORDS

T = TypeVar("T")
Window = tuple[HeardWord, ...]
Asking = Generator[Sequence[Window], Sequence[Sequence[MarkedWord]], T]
"""Work that asks the punctuation model at most once. It yields windows, and gets the answers for them."""


@dataclass(frozen=True)
class SegmentWords:
    """The words of the running segment, and the silence between its start and the first of them."""

    before_ms: int
    words: Window


NO_WORDS = SegmentWords(0, ())


class SentenceMarks:
    """Decides the marks of a stream, segment by segment."""

    def __init__(self, behind: int, ahead: int, context: Sequence[HeardWord] = ()) -> None:
        """`behind` and `ahead` are those of the model; `context`: the last words before this stream."""
        self._behind = min(behind, MOST_CONTEXT_WORDS)
        self._ahead = ahead
        self._context = tuple(context)[-self._behind :]
        self._decided: list[MarkedWord] = []  # of the running segment
        self._asked: tuple[SegmentWords, list[MarkedWord]] = (NO_WORDS, [])  # the last words, and their marks

    @property
    def context(self) -> Window:
        """The last words before the running segment. The pause after the last one is the silence until its start."""
        return self._context

    @property
    def decided(self) -> int:
        """For how many words of the running segment the marks will not change."""
        return len(self._decided)

    def read(self, segment: SegmentWords, stable: int) -> Asking[list[MarkedWord]]:
        """The marks of all words of the segment so far, of which the first `stable` will not change."""
        known, marks = len(self._decided), self._decided
        if segment == self._asked[0]:
            marks = self._asked[1]
        elif len(segment.words) > known:
            [found] = yield [self._window(segment, known)]
            marks = marks + _answer(found, segment, known)
        self._asked = segment, marks
        self._decided = marks[: max(known, stable - self._ahead)]
        return marks

    def end(
        self, segment: SegmentWords, others: Sequence[SegmentWords]
    ) -> Asking[tuple[list[MarkedWord], list[list[MarkedWord]]]]:
        """The marks of all words of the segment, which has ended, and those of other texts that it might have had.

        The other texts mostly begin like the segment, and only the rest of them is asked about.
        """
        known = len(self._decided)
        shared = [max(0, _common(segment.words, other.words) - self._ahead) for other in others]
        rests = [self._window(other, alike) for other, alike in zip(others, shared, strict=True)]
        found, *answers = yield [self._window(segment, known), *rests]
        marks = self._decided + _answer(found, segment, known)
        return marks, [
            marks[:alike] + _answer(answer, other, alike)
            for answer, other, alike in zip(answers, others, shared, strict=True)
        ]

    def cut(self, segment: SegmentWords, length_ms: int) -> None:
        """The running segment has ended. The pause after its last word, or its length without words, is the silence."""
        line = self._line(segment)[-self._behind :]
        if line and not segment.words:
            line = (*line[:-1], _longer(line[-1], length_ms))
        self._context = tuple(map(_bounded, line))
        self._decided, self._asked = [], (NO_WORDS, [])

    def _window(self, segment: SegmentWords, known: int) -> Window:
        """The words of the segment from `known` on, and before them as many as the model sees."""
        return self._line(segment)[max(0, len(self._context) + known - self._behind) :]

    def _line(self, segment: SegmentWords) -> Window:
        if not segment.words or not self._context:
            return (*self._context, *segment.words)
        return (*self._context[:-1], _longer(self._context[-1], segment.before_ms), *segment.words)


def _bounded(heard: HeardWord) -> HeardWord:
    pause_ms = min(heard.pause_ms or 0, LONGEST_CONTEXT_PAUSE_MS)
    return HeardWord(heard.word[:LONGEST_CONTEXT_WORD], pause_ms)


def _longer(heard: HeardWord, silent_ms: int) -> HeardWord:
    return _bounded(replace(heard, pause_ms=(heard.pause_ms or 0) + silent_ms))


def _common(one: Window, other: Window) -> int:
    """With how many common words both begin."""
    for count, (mine, theirs) in enumerate(zip(one, other)):  # noqa: B905 - as far as both go
        if mine != theirs:
            return count
    return min(len(one), len(other))


def _answer(found: Sequence[MarkedWord], segment: SegmentWords, known: int) -> list[MarkedWord]:
    """The marks of the words from `known` on, of the answer for a window."""
    return list(found[len(found) - len(segment.words) + known :])
