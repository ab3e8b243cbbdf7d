"""Reads an ended segment with a reader, and gives its words all that words of the recogniser have.

The reader gives text. Here its spoken words get their frames, and a confidence for which two witnesses speak: the
phones that the first pass heard, and the reader. A hotword that the first pass found stays, unless the reader is sure
of other words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.reader.gate import Evidence, Gate, evidence_of, gate_of
from streamer.engine.reader.reading import Reading
from streamer.engine.reader.reading_words import Phrase, ReadWord, phrases_of
from streamer.engine.reader.segment_reader import ReaderError, SegmentReader
from streamer.engine.search.search import Hotword, HypothesisWord
from streamer.engine.text.marks import MarkedWord
from streamer.engine.waiting import OutsideWork, Work, finish

if TYPE_CHECKING:
    from streamer.engine.reader.alignment import Aligner, Alignment

# A pause between words of the first pass at which a long segment may be cut.
_PAUSE_FRAMES: Final = 5
# The most ways of saying figures that are compared in a segment.
_MOST_COMPARED: Final = 24
# The natural log of the factor for a hotword of weight 1, as in the search.
_HOTWORD_BONUS: Final = 5.5
_LEAST, _MOST = 0.001, 0.999  # the bounds of a probability in a comparison


@dataclass(frozen=True)
class HeardSegment:
    """What the first pass knows of a segment: its samples, the log-probabilities of its phones, and its words."""

    samples: NDArray[np.int16]
    phones: NDArray[np.float32]
    frame_samples: int
    words: tuple[HypothesisWord, ...]
    hotwords: tuple[Hotword, ...] = ()

    @property
    def pauses(self) -> list[tuple[int, int]]:
        """The pauses between the words, in samples."""
        return [
            (word.end * self.frame_samples, after.start * self.frame_samples)
            for word, after in zip(self.words, self.words[1:], strict=False)
            if after.start - word.end >= _PAUSE_FRAMES
        ]


class ReaderPass:
    """Reads segments again with a reader."""

    def __init__(self, reader: SegmentReader, aligner: Aligner, gate: Gate | None = None) -> None:
        self.reader = reader
        self.aligner = aligner
        self._gate = gate

    def read(self, segment: HeardSegment) -> OutsideWork[tuple[HypothesisWord, ...]]:
        """Return the words that the reader reads in this segment; none if it reads none, or none that fit."""
        while not self.reader.ready():
            yield self.reader
        pending = self.reader.begin(segment.samples, segment.pauses)
        while not pending.ready():
            yield pending
        try:
            reading = pending.result()
        except ReaderError:
            return ()
        yield None
        return (yield from self.words_in_parts(reading, segment))

    def words_of(self, reading: Reading, segment: HeardSegment) -> tuple[HypothesisWord, ...]:
        """Return the words of a reading with their frames; none if it cannot be used or is not believed."""
        return finish(self.words_in_parts(reading, segment))

    def words_in_parts(self, reading: Reading, segment: HeardSegment) -> Work[tuple[HypothesisWord, ...]]:
        """Do the work of `words_of`, one alignment at a time: that of a long segment takes some milliseconds."""
        if not reading.complete:
            return ()
        phrases = phrases_of(reading.tokens, self.aligner.knows)
        line, alignment = yield from self._likeliest_line(phrases, segment.phones)
        if alignment is None:
            return ()
        words = tuple(
            HypothesisWord(word.text, frames.start, frames.end, frames.posterior, word.probability, word.marked)
            for word, frames in zip(line, alignment.words, strict=True)
        )
        gate = self._gate or gate_of(reading)
        if gate.score(self.evidence(reading, words, alignment, segment)) <= 0:
            return ()
        yield
        return (yield from self._with_hotwords(words, alignment, segment))

    def evidence(
        self, reading: Reading, words: Sequence[HypothesisWord], alignment: Alignment, segment: HeardSegment
    ) -> Evidence:
        """Return what speaks for a reading."""
        own = self.aligner.align([word.text for word in segment.words], segment.phones)
        gain = 0.0 if own is None else (alignment.score - own.score) * len(segment.phones)
        return evidence_of(reading, words, segment.words, gain)

    def _likeliest_line(
        self, phrases: Sequence[Phrase], phones: NDArray[np.float32]
    ) -> Work[tuple[list[ReadWord], Alignment | None]]:
        """Return the words of these phrases, with figures said in the way that was heard, and their frames."""
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
        return [word for way in ways for word in way], best

    def _align(self, ways: Sequence[tuple[ReadWord, ...]], phones: NDArray[np.float32]) -> Alignment | None:
        return self.aligner.align([word.text for way in ways for word in way], phones)

    def _with_hotwords(
        self, words: tuple[HypothesisWord, ...], alignment: Alignment, segment: HeardSegment
    ) -> Work[tuple[HypothesisWord, ...]]:
        """Return the words with those hotwords of the first pass that are likelier than what was read there."""
        for first, last, weight in found_hotwords(segment.words, segment.hotwords):
            own = segment.words[first:last]
            begin, end = own[0].start, own[-1].end
            places = [place for place, word in enumerate(words) if begin <= (word.start + word.end - 1) / 2 < end]
            if not places:
                continue
            replaced = words[places[0] : places[-1] + 1]
            if [word.text for word in replaced] == [word.text for word in own]:
                continue
            marked = replaced[-1].marked or MarkedWord.plain()
            new = tuple(replace(word, marked=MarkedWord.plain()) for word in own[:-1])
            new += (replace(own[-1], marked=replace(marked, case=MarkedWord.plain().case)),)
            line = (*words[: places[0]], *new, *words[places[-1] + 1 :])
            other = self.aligner.align([word.text for word in line], segment.phones)
            yield
            if other is None:
                continue
            heard = (other.score - alignment.score) * len(segment.phones)
            read = math.prod(max(_LEAST, word.share) for word in replaced)
            if heard + weight * _HOTWORD_BONUS + _log_odds(1 - read) > 0:
                words, alignment = line, other
        return words


def found_hotwords(words: Sequence[HypothesisWord], hotwords: Sequence[Hotword]) -> list[tuple[int, int, float]]:
    """Return where hotwords stand in these words, and their weights. Longer ones come first, and none overlap."""
    texts = [word.text for word in words]
    found: list[tuple[int, int, float]] = []
    for hotword in sorted(hotwords, key=lambda one: -len(one.text.split())):
        phrase = hotword.text.lower().split()
        for place in range(len(texts) - len(phrase) + 1):
            end = place + len(phrase)
            taken = any(first < end and place < last for first, last, _ in found)
            if texts[place:end] == phrase and hotword.weight > 0 and not taken:
                found.append((place, end, hotword.weight))
    return sorted(found)


def _log_odds(probability: float) -> float:
    bounded = min(_MOST, max(_LEAST, probability))
    return math.log(bounded / (1 - bounded))
