"""Measures marks and capitals on recordings of printed text, from the true words and from the recognised words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from streamer.engine.punctuation.marks import Case, HeardWord, Mark, MarkedWord
from streamer.engine.punctuation.punctuation_model import PunctuationModel
from streamer.training.punctuation.measurement.heard_speech import HeardSegment
from streamer.training.punctuation.measurement.mark_scores import MarkScores, WrittenWord, written_words
from streamer.training.punctuation.measurement.read_speech import ReadClip
from streamer.training.punctuation.punctuated_text import LabelledWord

Segments = Sequence[Sequence[HeardWord]]
"""The words of a recording by segment. The last word of a segment has the pause until the segment ended."""

Marker = Callable[[Segments], list[MarkedWord]]
"""Returns the marks of all words of a recording."""


def by_model(model: PunctuationModel) -> Marker:
    """Return a marker that uses the model, segment by segment as in a stream."""

    def marked(segments: Segments) -> list[MarkedWord]:
        before: list[HeardWord] = []
        marks: list[MarkedWord] = []
        for segment in segments:
            window = [*before[-model.behind :], *segment]
            marks += model.read([window])[0][len(window) - len(segment) :]
            before += segment
        return marks

    return marked


def by_pauses(comma_ms: int, full_stop_ms: int) -> Marker:
    """Return a marker by pauses: a full stop at the end of a segment and at a long pause, a comma at a shorter one."""

    def marked(segments: Segments) -> list[MarkedWord]:
        words = []
        for segment in segments:
            marks = [
                Mark.FULL_STOP
                if (word.pause_ms or 0) >= full_stop_ms
                else Mark.COMMA
                if (word.pause_ms or 0) >= comma_ms
                else Mark.NONE
                for word in segment
            ]
            words += _with_first_person(segment, [*marks[:-1], Mark.FULL_STOP])
        return words

    return marked


def by_majority(segments: Segments) -> list[MarkedWord]:
    """Return what is most frequent: no mark within a segment, and a full stop at its end."""
    words = []
    for segment in segments:
        words += _with_first_person(segment, [*[Mark.NONE] * (len(segment) - 1), Mark.FULL_STOP])
    return words


def without_pauses(segments: Segments) -> Segments:
    """Return the same words without the pauses within segments."""
    return [[*(HeardWord(word.word) for word in segment[:-1]), segment[-1]] for segment in segments]


def true_segments(clip: ReadClip, segments: Sequence[HeardSegment]) -> Segments:
    """Return the true words of a recording as one segment, with the pauses after words that were recognised."""
    words = [word.word for word in clip.words]
    flat = _flat(segments)
    pauses: list[int | None] = [0] * len(words)
    for place, other in _aligned(words, [word.word for word in flat]):
        if place is not None and other is not None:
            pauses[place] = flat[other].pause_ms
    ended = flat[-1].pause_ms if flat else 0
    return [
        [HeardWord(word, pause) for word, pause in zip(words[:-1], pauses, strict=False)]
        + [HeardWord(words[-1], ended)]
    ]


def heard_segments(segments: Sequence[HeardSegment]) -> Segments:
    """Return the words of a recording as they were recognised."""
    return [segment.heard() for segment in segments]


def true_scores(clip: ReadClip, segments: Segments, marker: Marker, scores: MarkScores) -> None:
    """Add the scores of the marks after the true words."""
    marks = marker(segments)
    for one, other in zip(_written(marks), _printed(clip.words), strict=True):
        scores.add(one, other)


def heard_scores(clip: ReadClip, segments: Segments, marker: Marker, scores: MarkScores) -> None:
    """Add the scores of the marks after recognised words. A mark after a lost word belongs to the word before it."""
    answers = _written(marker(segments))
    printed = _printed(clip.words)
    expected: list[WrittenWord] = [WrittenWord(Mark.NONE, None)] * len(answers)
    last: int | None = None
    for place, other in _aligned([word.word for word in clip.words], [w.word for segment in segments for w in segment]):
        if place is None:
            last = other
        elif other is not None:
            expected[other] = printed[place]
            last = other
        elif last is not None and printed[place].mark is not Mark.NONE and expected[last].mark is Mark.NONE:
            expected[last] = WrittenWord(printed[place].mark, expected[last].capital)
    for one, another in zip(answers, expected, strict=True):
        scores.add(one, another)


@dataclass(frozen=True)
class SettlingDelay:
    """The number of words and milliseconds by which the mark of a word is settled later than the word."""

    words: int
    ms: int


def settling_delays(segments: Sequence[HeardSegment], ahead: int) -> Iterator[SettlingDelay]:
    """Yield the delay of every word."""
    for segment in segments:
        for place in range(len(segment.words)):
            needed = place + 1 + ahead
            settled = segment.stable_at(needed) if needed <= len(segment.words) else segment.ended_ms
            words = min(ahead, len(segment.words) - place - 1)
            yield SettlingDelay(words, settled - segment.stable_at(place + 1))


def _flat(segments: Sequence[HeardSegment]) -> list[HeardWord]:
    words: list[HeardWord] = []
    for segment, following in zip(segments, [*segments[1:], None], strict=False):
        words += segment.heard(following.words[0].start_ms if following and following.words else None)
    return words


def _with_first_person(segment: Sequence[HeardWord], marks: Sequence[Mark]) -> list[MarkedWord]:
    return [
        MarkedWord(mark, Case.FIRST if word.word == "i" or word.word.startswith("i'") else Case.LOWER)
        for word, mark in zip(segment, marks, strict=True)
    ]


def _written(words: Sequence[MarkedWord]) -> list[WrittenWord]:
    return written_words([word.mark for word in words], [word.case for word in words])


def _printed(words: Sequence[LabelledWord]) -> list[WrittenWord]:
    """Return the printed words. The capital of the first word is unknown, because a recording may begin anywhere."""
    printed = []
    for word in words:
        capital = True if word.begins else None if word.case is None else word.case is not Case.LOWER
        printed.append(WrittenWord(word.mark, capital))
    printed[0] = WrittenWord(printed[0].mark, None)
    return printed


def _aligned(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield pairs of places in two texts, in order; None where one has no such word."""
    for part in Levenshtein.opcodes(one, other):
        places, others = range(part.src_start, part.src_end), range(part.dest_start, part.dest_end)
        if part.tag in ("equal", "replace"):
            yield from zip(places, others, strict=True)
        else:
            yield from ((place, None) for place in places)
            yield from ((None, place) for place in others)
