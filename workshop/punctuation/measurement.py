"""Measures marks and capitals, their scores and their cost: on text, and on recordings of printed text."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from streamer.base.events import Final, Partial, StreamEvent, Word
from streamer.base.limits import STEP_MS
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_options import StreamOptions
from streamer.engine.text.marks import Case, HeardWord, Mark, MarkedWord
from streamer.engine.text.punctuation_model import PunctuationModel
from workshop.data.corpus import SAMPLE_RATE, CorpusError, Samples, Utterance
from workshop.language.text_sources import paragraphs
from workshop.model_steps import own_step
from workshop.punctuation.labelled_text import UNLABELLED, LabelledText, LabelledWord, labelled_sentences

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


# Recognises recordings: segments of words with their times, and when each word was stable.

TOGETHER = 8


@dataclass(frozen=True)
class HeardSegment:
    """A segment: its words, where it ended, and how many of its words were stable after how much audio (ms)."""

    words: tuple[Word, ...]
    ended_ms: int
    stable: tuple[tuple[int, int], ...]

    def heard(self, next_start_ms: int | None = None) -> list[HeardWord]:
        """Return the words with the pauses after them. The last pause ends with the next word or with the segment."""
        starts = [word.start_ms for word in self.words[1:]]
        starts.append(self.ended_ms if next_start_ms is None else next_start_ms)
        return [
            HeardWord(word.word, max(0, start - word.end_ms)) for word, start in zip(self.words, starts, strict=True)
        ]

    def stable_at(self, count: int) -> int:
        """Return the audio in milliseconds after which this many words were stable."""
        return next((audio_ms for audio_ms, stable in self.stable if stable >= count), self.ended_ms)


@dataclass
class HeardRecordings:
    """The segments of each recording, and the CPU time that recognising took."""

    recordings: list[list[HeardSegment]] = field(default_factory=list)
    cpu_s: float = 0.0


def recognise(recogniser: Recogniser, recordings: Sequence[Samples]) -> HeardRecordings:
    """Recognise recordings in steps of the usual length, several at a time."""
    heard = HeardRecordings()
    options = StreamOptions(step_ms=own_step(STEP_MS, recogniser.model.step_ms), speech=False)
    began = time.process_time()
    for start in range(0, len(recordings), TOGETHER):
        together = recordings[start : start + TOGETHER]
        events: list[list[StreamEvent]] = [[] for _ in together]
        for stream in range(len(together)):
            recogniser.open(stream, options)
        for chunks in _chunks(together, options.step_ms):
            for index, answer in recogniser.step(chunks):
                if isinstance(answer, StreamError):
                    raise answer
                events[chunks[index].stream] += answer
        heard.recordings += [list(_segments(each)) for each in events]
    heard.cpu_s = time.process_time() - began
    return heard


def _chunks(recordings: Sequence[Samples], step_ms: int) -> Iterator[list[Chunk]]:
    """Yield the chunks of every step, for all recordings that are not over yet."""
    step = step_ms * SAMPLE_RATE // 1000
    for start in range(0, max(map(len, recordings)), step):
        yield [
            Chunk(stream, samples[start : start + step], end=start + step >= len(samples))
            for stream, samples in enumerate(recordings)
            if start < len(samples)
        ]


def _segments(events: Sequence[StreamEvent]) -> Iterator[HeardSegment]:
    stable: list[tuple[int, int]] = []
    for event in events:
        if isinstance(event, Partial):
            stable.append((event.audio_ms, len(event.text[: event.stable].split())))
        elif isinstance(event, Final):
            yield HeardSegment(event.words or (), event.audio_ms, tuple(stable))
            stable = []


# Finds the printed marks and capitals of recordings in which people read printed text.

_FEWEST_WORDS = 4  # a shorter sentence would be found by chance


@dataclass(frozen=True)
class ReadClip:
    """A recording with the words that were read, in lower case, and how they were printed."""

    utterance: Utterance
    words: list[LabelledWord]

    @property
    def known(self) -> float:
        """The share of words whose mark is known."""
        return sum(word.mark is not None for word in self.words) / len(self.words)


class PrintedText:
    """An index of printed sentences by their first words."""

    def __init__(self, paragraphs: Iterable[str]) -> None:
        self._by_start: dict[tuple[str, ...], list[list[LabelledWord]]] = defaultdict(list)
        for paragraph in paragraphs:
            words = [word for sentence in labelled_sentences(paragraph) for word in sentence]
            if len(words) >= _FEWEST_WORDS:
                self._by_start[tuple(word.word for word in words[:_FEWEST_WORDS])].append(words)

    @classmethod
    def read(cls, files: Sequence[Path]) -> PrintedText:
        """Read text files with a sentence or paragraph in each line."""
        for path in files:
            if not path.is_file():
                raise CorpusError(f"{path} is missing: it has the printed text of the recordings")
        return cls(line for path in files for line in paragraphs(path.name, path.read_text(encoding="utf-8")))

    def clip(self, utterance: Utterance) -> ReadClip:
        """Return the recording with the labels of all sentences that were found in it."""
        spoken = utterance.text.split()
        words: list[LabelledWord] = []
        while len(words) < len(spoken):
            place = len(words)
            fitting = [
                printed
                for printed in self._by_start.get(tuple(spoken[place : place + _FEWEST_WORDS]), ())
                if [word.word for word in printed] == spoken[place : place + len(printed)]
            ]
            fitting.append([LabelledWord(spoken[place], None, None, False)])
            words += sorted(fitting, key=len)[-1]
        return ReadClip(utterance, words)


# Scores of marks and capitals: the F1 of each.

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


# Measures the punctuation model on text: compares its marks and capitals with those of the text.

_MARKS, _CASES = list(Mark), list(Case)
_WINDOW = 600  # words that the model reads in one call
_LONG_MS = 1000


def text_scores(model: PunctuationModel, text: LabelledText, words: Sequence[str]) -> MarkScores:
    """Return the scores of a text without pauses. The numbers of the text stand for `words`."""
    scores = MarkScores()
    for part in _running(text):
        heard = [HeardWord(words[number]) for number in part.words]
        heard[-1] = HeardWord(heard[-1].word, _LONG_MS)
        answers = model.read([heard])[0]
        answered = written_words([each.mark for each in answers], [each.case for each in answers])
        expected = written_words(
            [None if number == UNLABELLED else _MARKS[number] for number in part.marks],
            [None if number == UNLABELLED else _CASES[number] for number in part.cases],
        )
        for one, other in zip(answered, expected, strict=True):
            scores.add(one, other)
    return scores


def _running(text: LabelledText) -> Iterator[LabelledText]:
    """Yield the parts of a text without a gap. A part is a stream of its own, and not longer than a window."""
    begins = np.flatnonzero(text.begins == 2).tolist()
    for start, stop in zip([0, *begins], [*begins, len(text)], strict=True):
        while start < stop:
            end = stop
            if stop - start > _WINDOW:
                sentences = np.flatnonzero(text.begins[start + 1 : start + _WINDOW]) + start + 1
                end = int(sentences[-1]) if len(sentences) else start + _WINDOW
            yield text.part(start, end)
            start = end


# Measures the CPU time of marks: for a call with several streams, and for a second of speech of one stream.

BATCHES = (1, 8, 32)
_NEW_WORDS = 2  # words that came since the last call
_REPEATED = 40


@dataclass(frozen=True)
class MarkCost:
    """The CPU milliseconds of one call for this many streams, and the share of a core that each of them needs."""

    streams: int
    call_ms: float
    share: float


def mark_costs(model: PunctuationModel, recordings: Sequence[Sequence[HeardSegment]], seconds: float) -> list[MarkCost]:
    """Return the costs for recordings of `seconds` in total. A stream has a call for every partial and every final."""
    calls = sum(len(segment.stable) + 1 for segments in recordings for segment in segments)
    words = [word for segments in recordings for segment in segments for word in segment.heard()]
    length = model.behind + model.ahead + _NEW_WORDS
    windows = [
        [*words[start : start + length - 1], HeardWord("the")] for start in range(0, len(words) - length, length)
    ]
    costs = []
    for streams in BATCHES:
        batch = [windows[place % len(windows)] for place in range(streams)]
        model.read(batch)
        began = time.process_time()
        for _ in range(_REPEATED):
            model.read(batch)
        call_s = (time.process_time() - began) / _REPEATED
        costs.append(MarkCost(streams, 1000 * call_s, call_s / streams * calls / seconds))
    return costs
