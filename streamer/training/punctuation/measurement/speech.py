"""Measures marks and capitals on recordings of printed text, from the true words and from those that were heard."""

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
"""Says the marks of all words of a recording."""


def by_model(model: PunctuationModel) -> Marker:
    """Marks by the model, segment by segment as in a stream."""

    def marked(segments: Segments) -> list[MarkedWord]:
        before: list[HeardWord] = []
        found: list[MarkedWord] = []
        for segment in segments:
            window = [*before[-model.behind :], *segment]
            found += model.read([window])[0][len(window) - len(segment) :]
            before += segment
        return found

    return marked


def by_pauses(comma_ms: int, full_stop_ms: int) -> Marker:
    """Marks by pauses alone: a full stop at the end of a segment and at a long pause, a comma at a shorter one."""

    def marked(segments: Segments) -> list[MarkedWord]:
        found = []
        for segment in segments:
            marks = [
                Mark.FULL_STOP
                if (word.pause_ms or 0) >= full_stop_ms
                else Mark.COMMA
                if (word.pause_ms or 0) >= comma_ms
                else Mark.NONE
                for word in segment
            ]
            found += _with_first_person(segment, [*marks[:-1], Mark.FULL_STOP])
        return found

    return marked


def by_majority(segments: Segments) -> list[MarkedWord]:
    """What is most frequent everywhere: no mark within a segment, a full stop at its end."""
    found = []
    for segment in segments:
        found += _with_first_person(segment, [*[Mark.NONE] * (len(segment) - 1), Mark.FULL_STOP])
    return found


def without_pauses(segments: Segments) -> Segments:
    """The same words, of which only the ends of segments are known."""
    return [[*(HeardWord(word.word) for word in segment[:-1]), segment[-1]] for segment in segments]


def true_segments(clip: ReadClip, heard: Sequence[HeardSegment]) -> Segments:
    """The true words of a recording as one segment, with the pauses of the words that were heard right."""
    words = [word.word for word in clip.words]
    flat = _flat(heard)
    pauses: list[int | None] = [0] * len(words)
    for place, other in _aligned(words, [word.word for word in flat]):
        if place is not None and other is not None:
            pauses[place] = flat[other].pause_ms
    ended = flat[-1].pause_ms if flat else 0
    return [
        [HeardWord(word, pause) for word, pause in zip(words[:-1], pauses, strict=False)]
        + [HeardWord(words[-1], ended)]
    ]


def heard_segments(heard: Sequence[HeardSegment]) -> Segments:
    """The words of a recording as they were heard."""
    return [segment.heard() for segment in heard]


def true_scores(clip: ReadClip, segments: Segments, marker: Marker, scores: MarkScores) -> None:
    """Add the scores of marks that were given to the true words."""
    found = marker(segments)
    for one, other in zip(_written(found), _printed(clip.words), strict=True):
        scores.add(one, other)


def heard_scores(clip: ReadClip, segments: Segments, marker: Marker, scores: MarkScores) -> None:
    """Add the scores of marks that were given to heard words. A mark after a lost word belongs to the word before."""
    found = _written(marker(segments))
    printed = _printed(clip.words)
    wanted: list[WrittenWord] = [WrittenWord(Mark.NONE, None)] * len(found)
    last: int | None = None
    for place, other in _aligned([word.word for word in clip.words], [w.word for segment in segments for w in segment]):
        if place is None:
            last = other
        elif other is not None:
            wanted[other] = printed[place]
            last = other
        elif last is not None and printed[place].mark is not Mark.NONE and wanted[last].mark is Mark.NONE:
            wanted[last] = WrittenWord(printed[place].mark, wanted[last].capital)
    for one, another in zip(found, wanted, strict=True):
        scores.add(one, another)


@dataclass(frozen=True)
class SettlingDelay:
    """How much later the mark of a word is settled than the word: by how many words and milliseconds."""

    words: int
    ms: int


def settling_delays(heard: Sequence[HeardSegment], ahead: int) -> Iterator[SettlingDelay]:
    """The delay of every word."""
    for segment in heard:
        for place in range(len(segment.words)):
            needed = place + 1 + ahead
            settled = segment.stable_at(needed) if needed <= len(segment.words) else segment.ended_ms
            words = min(ahead, len(segment.words) - place - 1)
            yield SettlingDelay(words, settled - segment.stable_at(place + 1))


def _flat(heard: Sequence[HeardSegment]) -> list[HeardWord]:
    found: list[HeardWord] = []
    for segment, following in zip(heard, [*heard[1:], None], strict=False):
        found += segment.heard(following.words[0].start_ms if following and following.words else None)
    return found


def _with_first_person(segment: Sequence[HeardWord], marks: Sequence[Mark]) -> list[MarkedWord]:
    return [
        MarkedWord(mark, Case.FIRST if word.word == "i" or word.word.startswith("i'") else Case.LOWER)
        for word, mark in zip(segment, marks, strict=True)
    ]


def _written(found: Sequence[MarkedWord]) -> list[WrittenWord]:
    return written_words([word.mark for word in found], [word.case for word in found])


def _printed(words: Sequence[LabelledWord]) -> list[WrittenWord]:
    """What was printed. The first word of a recording counts only if a sentence begins there."""
    printed = []
    for word in words:
        capital = True if word.begins else None if word.case is None else word.case is not Case.LOWER
        printed.append(WrittenWord(word.mark, capital))
    printed[0] = WrittenWord(printed[0].mark, None)
    return printed


def _aligned(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of places in two texts, in order; None where one has no such word."""
    for part in Levenshtein.opcodes(one, other):
        places, others = range(part.src_start, part.src_end), range(part.dest_start, part.dest_end)
        if part.tag in ("equal", "replace"):
            yield from zip(places, others, strict=True)
        else:
            yield from ((place, None) for place in places)
            yield from ((None, place) for place in others)
