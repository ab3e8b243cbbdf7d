"""Reads an ended segment with a reader, and combines its words with those of the recogniser.

The reader gives text. Here its spoken words get their frames, and a confidence for which several witnesses speak: the
phones that the first pass heard, its search, and the reader. Where both differ, the likelier words are taken.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.combination import Evidence, Mixtures, bounded, log_odds, logistic
from streamer.engine.reader.differences import OtherWords, at_characters
from streamer.engine.reader.reading import Reading, ReadingOptions
from streamer.engine.reader.reading_words import Phrase, ReadWord, WrittenWord, written_words
from streamer.engine.reader.segment_reader import ReaderError, SegmentReader
from streamer.engine.search.search import Hotword, HypothesisWord
from streamer.engine.text.marks import Case, MarkedWord
from streamer.engine.waiting import OutsideWork, Pause, Work, finish
from streamer.models.whisper_folder import ENGLISH

if TYPE_CHECKING:
    from streamer.engine.reader.alignment import Aligner, Alignment, WordFrames
    from streamer.engine.reader.line_language import LineLanguage

# A pause between words at which a long segment may be cut.
_PAUSE_FRAMES: Final = 5
# The most ways of saying figures that are compared in a segment.
_MOST_COMPARED: Final = 24
# If nothing of a reading remains, the second pass reads the segment as well, but only if the reading is so far from the
# words of the first pass: more than this part of them. Otherwise its words are no better, and take more time.
_FAR: Final = 0.3
# A reader that fails is asked again after this time, if nobody else can read a segment.
_ASKED_AGAIN_S: Final = 0.5
SAMPLE_RATE: Final = 16_000
# The log-odds that a hotword of weight 1 adds to the words that have it.
_HOTWORD_BONUS: Final = 4.0


@dataclass(frozen=True)
class HeardSegment:
    """What the first pass knows of a segment: its samples, the log-probabilities of its phones, and its words."""

    samples: NDArray[np.int16]
    phones: NDArray[np.float32]
    frame_samples: int
    words: tuple[HypothesisWord, ...]
    hotwords: tuple[Hotword, ...] = ()

    @property
    def frame_ms(self) -> float:
        """The length of a frame."""
        return 1000 * self.frame_samples / SAMPLE_RATE

    @property
    def pauses(self) -> list[tuple[int, int]]:
        """The pauses between the words, in samples."""
        return [
            (word.end * self.frame_samples, after.start * self.frame_samples)
            for word, after in zip(self.words, self.words[1:], strict=False)
            if after.start - word.end >= _PAUSE_FRAMES
        ]


@dataclass(frozen=True)
class Choice:
    """A difference between a reading and the words of the recogniser, with what speaks for the latter.

    `hotwords`: the weights of the hotwords that come with them, less those that go.
    """

    other: OtherWords
    evidence: Evidence
    hotwords: float = 0.0


@dataclass(frozen=True)
class Compared:
    """A reading: the words of each written word, the frames of all of them, and the differences in order."""

    ways: Sequence[tuple[ReadWord, ...]]
    alignment: Alignment
    choices: Sequence[Choice]

    def texts(self, taken: Container[int] = ()) -> list[str]:
        """Return the words, with those of the recogniser at these differences."""
        line: list[str] = []
        at = 0
        for number, choice in enumerate(self.choices):
            if number in taken:
                line += [word.text for way in self.ways[at : choice.other.first] for word in way]
                line += choice.other.words
                at = choice.other.last
        return line + [word.text for way in self.ways[at:] for word in way]

    @property
    def differing(self) -> int:
        """How many words differ, of the reading or of the recogniser, whichever has more of them."""
        return sum(max(len(one.other.words), one.other.last - one.other.first) for one in self.choices)


class ReaderPass:
    """Reads segments again with a reader, and combines its words with those of the recogniser."""

    def __init__(
        self,
        reader: SegmentReader,
        aligner: Aligner,
        language: LineLanguage | None,
        mixtures: Mixtures,
    ) -> None:
        self.reader = reader
        self.aligner = aligner
        self.language, self.mixtures = language, mixtures

    def read(self, segment: HeardSegment, prompt: str = "") -> OutsideWork[tuple[HypothesisWord, ...]]:
        """Return the words of the reader and of the recogniser together; none if it adds nothing.

        `prompt`: what was said before, or how names are written; only some readers use it.
        """
        try:
            reading = yield from self._reading(segment, ReadingOptions(ENGLISH, prompt=prompt))
        except ReaderError:
            return ()
        yield None
        return (yield from self.words_in_parts(reading, segment))

    def read_alone(self, segment: HeardSegment, options: ReadingOptions) -> OutsideWork[Reading]:
        """Return what the reader reads, with the times that it finds. It is asked until it answers."""
        while True:
            try:
                return (yield from self._reading(segment, options))
            except ReaderError:
                yield Pause(_ASKED_AGAIN_S)

    def _reading(self, segment: HeardSegment, options: ReadingOptions) -> OutsideWork[Reading]:
        """Return what the reader reads. ReaderError if it does not."""
        while not self.reader.ready():
            yield self.reader
        words = () if options.times else [word.text for word in segment.words]
        pending = self.reader.begin(segment.samples, segment.pauses, words, options)
        while not pending.ready():
            yield pending
        return pending.result()

    def words_of(self, reading: Reading, segment: HeardSegment) -> tuple[HypothesisWord, ...]:
        """Return the words of a reading with their frames; none if it cannot be used or adds nothing."""
        return finish(self.words_in_parts(reading, segment))

    def words_in_parts(self, reading: Reading, segment: HeardSegment) -> Work[tuple[HypothesisWord, ...]]:
        """Do the work of `words_of`, one alignment at a time: that of a long segment takes some milliseconds."""
        compared = yield from self.compare_in_parts(reading, segment)
        if compared is None:
            return ()
        mixture = self.mixtures.of(reading)
        scores = [mixture.score(choice.evidence) for choice in compared.choices]
        odds = [
            score + choice.hotwords * _HOTWORD_BONUS for score, choice in zip(scores, compared.choices, strict=True)
        ]
        far = compared.differing >= _FAR * len(segment.words)
        if far and scores and min(*scores, *odds) > 0:
            return ()  # nothing of the reading remains, and the second pass has better words than the first one
        line, surer = _combined(compared, odds, {word.text: word.share for word in segment.words})
        alignment: Alignment | None = compared.alignment
        if any(each > 0 for each in odds):
            yield
            alignment = self.aligner.align([word.text for word in line], segment.phones)
        if alignment is None:
            return ()
        return tuple(
            HypothesisWord(word.text, at.start, at.end, at.posterior, _share(word, at, odd, segment), word.marked)
            for word, at, odd in zip(line, alignment.words, surer, strict=True)
        )

    def compare_in_parts(self, reading: Reading, segment: HeardSegment) -> Work[Compared | None]:
        """Return a reading beside the words of the recogniser; None if it cannot be used."""
        if not reading.complete:
            return None
        written = written_words(reading.tokens, self.aligner.knows)
        ways, alignment = yield from self._likeliest_ways([one.phrase for one in written], segment.phones)
        if alignment is None:
            return None
        choices = yield from self._choices(reading, written, ways, alignment, segment)
        return Compared(ways, alignment, choices)

    def _choices(
        self,
        reading: Reading,
        written: Sequence[WrittenWord],
        ways: Sequence[Sequence[ReadWord]],
        alignment: Alignment,
        segment: HeardSegment,
    ) -> Work[list[Choice]]:
        """Return the differences with their evidence."""
        choices: list[Choice] = []
        line = [word.text for way in ways for word in way]
        judged = None if self.language is None else self.language.line(line)
        starts = [0, *accumulate(len(way) for way in ways)]
        frames = len(segment.phones)
        for difference in reading.differences:
            other = at_characters(written, difference.start, difference.end, difference.words)
            if other is None:
                continue
            first, last = starts[other.first], starts[other.last]
            if line[first:last] == list(other.words):
                continue  # figures, said like this
            changed = [*line[:first], *other.words, *line[last:]]
            yield
            aligned = self.aligner.align(changed, segment.phones)
            hotwords = _weight(changed, segment.hotwords) - _weight(line, segment.hotwords)
            language = 0.0 if judged is None else judged.gain(first, last, other.words)
            if hotwords:  # the language model does not expect hotwords, which is why they were named
                language = max(0.0, language) if hotwords > 0 else min(0.0, language)
            evidence = Evidence(
                gain=bounded(difference.gain),
                own=bounded(difference.own),
                fit=bounded(-math.inf if aligned is None else (aligned.score - alignment.score) * frames),
                language=bounded(language),
                longer=len(other.words) - (last - first),
            )
            choices.append(Choice(other, evidence, hotwords))
        return choices

    def _likeliest_ways(
        self, phrases: Sequence[Phrase], phones: NDArray[np.float32]
    ) -> Work[tuple[list[tuple[ReadWord, ...]], Alignment | None]]:
        """Return the words of each phrase, with figures said in the way that was heard, and the frames of all words."""
        ways = [phrase[0] for phrase in phrases]
        best = self._align(ways, phones)
        compared = 0
        for place, phrase in enumerate(phrases):
            for other in phrase[1:]:
                compared += 1
                if compared > _MOST_COMPARED:
                    break
                yield
                alignment = self._align([*ways[:place], other, *ways[place + 1 :]], phones)
                if alignment is not None and (best is None or alignment.score > best.score):
                    best, ways[place] = alignment, other
        yield
        return ways, best

    def _align(self, ways: Sequence[tuple[ReadWord, ...]], phones: NDArray[np.float32]) -> Alignment | None:
        return self.aligner.align([word.text for way in ways for word in way], phones)


def words_as_read(reading: Reading, frame_ms: float) -> tuple[HypothesisWord, ...]:
    """Return the words of a reading as they were written, in frames of this length."""
    return tuple(
        HypothesisWord(word.text, int(word.start_ms / frame_ms), math.ceil(word.end_ms / frame_ms), word.probability)
        for word in reading.words
    )


def _combined(
    compared: Compared, odds: Sequence[float], shares: Mapping[str, float]
) -> tuple[list[ReadWord], list[float | None]]:
    """Return the better words of each difference, and the log-odds of each word that it is better than the others.

    The odds of words that both have are None.
    """
    ways = compared.ways
    line: list[ReadWord] = []
    surer: list[float | None] = []
    at = 0
    for choice, odd in zip(compared.choices, odds, strict=True):
        other = choice.other
        replaced = [word for way in ways[other.first : other.last] for word in way]
        same = [word for way in ways[at : other.first] for word in way]
        new = _marked(other.words, replaced, shares, choice.hotwords > 0) if odd > 0 else replaced
        line += [*same, *new]
        surer += [None] * len(same) + [abs(odd)] * len(new)
        at = other.last
    rest = [word for way in ways[at:] for word in way]
    return [*line, *rest], surer + [None] * len(rest)


def _marked(
    words: Sequence[str], replaced: Sequence[ReadWord], shares: Mapping[str, float], is_hotword: bool
) -> list[ReadWord]:
    """Return words of the recogniser with the mark after what they replace, and its capitals if they are as many."""
    plain = MarkedWord.plain()
    cases = [word.marked.case for word in replaced] if len(replaced) == len(words) else []
    if is_hotword or not cases:
        cases = [Case.FIRST if _is_i(word) else plain.case for word in words]
    marks = [plain.mark] * len(words)
    if words and replaced:
        marks[-1] = replaced[-1].marked.mark
    return [
        ReadWord(word, MarkedWord(mark, case), shares.get(word, 1.0))
        for word, mark, case in zip(words, marks, cases, strict=True)
    ]


def _is_i(word: str) -> bool:
    return word == "i" or word.startswith("i'")


def _share(word: ReadWord, frames: WordFrames, odds: float | None, segment: HeardSegment) -> float:
    """Return how likely a word is: a word that both have is likelier than each of them says."""
    if odds is not None:
        return word.probability * logistic(odds)
    heard = [
        one.share
        for one in segment.words
        if one.text == word.text and one.start < frames.end and frames.start < one.end
    ]
    return logistic(log_odds(word.probability) + log_odds(max(0.5, *heard))) if heard else word.probability


def _weight(line: Sequence[str], hotwords: Sequence[Hotword]) -> float:
    return sum(weight for _, _, weight in found_hotwords(line, hotwords))


def found_hotwords(texts: Sequence[str], hotwords: Sequence[Hotword]) -> list[tuple[int, int, float]]:
    """Return where hotwords stand in these words, and their weights. Longer ones come first, and none overlap."""
    found: list[tuple[int, int, float]] = []
    for hotword in sorted(hotwords, key=lambda one: -len(one.text.split())):
        phrase = hotword.text.lower().split()
        for place in range(len(texts) - len(phrase) + 1):
            end = place + len(phrase)
            taken = any(first < end and place < last for first, last, _ in found)
            if texts[place:end] == phrase and hotword.weight > 0 and not taken:
                found.append((place, end, hotword.weight))
    return sorted(found)
