"""Turns labelled text into what a recogniser might hear of it: with wrong words, pauses and ends of segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamer.engine.punctuation.mark_network import PAUSES
from streamer.engine.punctuation.marks import Mark
from streamer.training.punctuation.labelled_text import UNLABELLED, LabelledText
from streamer.training.punctuation.pause_statistics import LONG, READ_ALOUD, hesitant
from streamer.training.punctuation.similar_words import ALIKE

Integers = npt.NDArray[np.int64]

END = -1
"""The number that stands in the place of a word where a segment ends."""
NOTHING = -2

_MARKS = list(Mark)
_COMMA = _MARKS.index(Mark.COMMA)
_ENDS = [number for number, mark in enumerate(_MARKS) if mark.ends_sentence]


@dataclass(frozen=True)
class HeardPiece:
    """Words as a recogniser gave them, the numbers of the pauses before them, and the labels that belong to them."""

    words: Integers
    pauses: Integers
    marks: Integers
    cases: Integers


@dataclass(frozen=True)
class Hearing:
    """How a recogniser hears. The rates are the largest; each piece has rates of its own below them."""

    substituted: float = 0.18
    dropped: float = 0.03
    inserted: float = 0.025
    clean_share: float = 0.35  # the share of pieces without an error
    timeless_share: float = 0.3  # the share of pieces without pauses
    hesitant_share: float = 0.3  # the share of pieces with pauses at any place
    ending_share: float = 0.75  # the share of pieces that go up to the end of a segment
    sentence_end_share: float = 0.88  # the share of segments that end with a sentence, because most long pauses do
    comma_end_share: float = 0.06  # the share of segments that end with a comma; the others end anywhere
    silent_end_share: float = 0.7  # the share of segments that end after a long pause
    mean_words: float = 28.0
    most_words: int = 96


class HeardText:
    """Draws pieces from the text of several sources."""

    def __init__(
        self,
        sources: Mapping[str, LabelledText],
        similar: npt.NDArray[np.int32],
        seed: int,
        hearing: Hearing | None = None,
    ) -> None:
        self._sources = [text for text in sources.values() if len(text)]
        sizes = np.array([len(text) for text in self._sources], dtype=float) ** 0.8
        self._chances = sizes / sizes.sum()
        self._similar = similar
        self._dice = np.random.default_rng(seed)
        self._hearing = hearing or Hearing()
        self._short = self._short_words()

    def piece(self) -> HeardPiece:
        """Draw a piece of running text, as it was heard."""
        dice, hearing = self._dice, self._hearing
        text = self._sources[dice.choice(len(self._sources), p=self._chances)]
        start = int(dice.integers(len(text)))
        if dice.random() < 0.85:  # a stream mostly begins with a sentence
            begins = np.flatnonzero(text.begins[start : start + hearing.most_words])
            start += int(begins[0]) if len(begins) else 0
        part = text.part(start, start + hearing.most_words)
        breaks = np.flatnonzero(part.begins[1:] == 2)
        if len(breaks):
            part = part.part(0, int(breaks[0]) + 1)
        length = min(2 + int(dice.exponential(hearing.mean_words)), len(part))
        ends = dice.random() < hearing.ending_share
        part = part.part(0, self._segment_end(part, length) if ends else length)
        words, marks, cases = self._misheard(part)
        pauses = self._paused(marks)
        if ends:
            words, marks, cases = np.append(words, END), np.append(marks, UNLABELLED), np.append(cases, UNLABELLED)
            # The pause is short if somebody stops the recording.
            shortest = LONG if dice.random() < hearing.silent_end_share else 1
            pauses = np.append(pauses, dice.integers(shortest, PAUSES))
        return HeardPiece(words, pauses, marks, cases)

    def row(self, places: int, gap: int) -> HeardPiece:
        """Draw as many pieces as these places can hold, with gaps between them."""
        parts, free = [], places
        while free > 8:
            piece = self.piece()
            size = min(len(piece.words), free)
            parts.append([values[:size] for values in vars(piece).values()])
            free -= size
            empty = min(gap, free)
            parts.append([np.full(empty, fill) for fill in (NOTHING, 0, UNLABELLED, UNLABELLED)])
            free -= empty
        parts.append([np.full(free, fill) for fill in (NOTHING, 0, UNLABELLED, UNLABELLED)])
        return HeardPiece(*(np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)))

    def _segment_end(self, part: LabelledText, length: int) -> int:
        """Return after how many words the segment ends: about `length`, in most cases at the end of a sentence."""
        choice, hearing = self._dice.random(), self._hearing
        if choice < hearing.sentence_end_share:
            kinds = _ENDS
        elif choice < hearing.sentence_end_share + hearing.comma_end_share:
            kinds = [_COMMA]
        else:
            return length
        places = np.flatnonzero(np.isin(part.marks, kinds)) + 1
        if not len(places):
            return length
        later = places[places >= length]
        return int(later[0] if len(later) else places[-1])

    def _misheard(self, part: LabelledText) -> tuple[Integers, Integers, Integers]:
        dice, hearing = self._dice, self._hearing
        words, marks, cases = (np.array(values, dtype=np.int64) for values in (part.words, part.marks, part.cases))
        if dice.random() < hearing.clean_share:
            return words, marks, cases
        rate = dice.random()
        size = len(words)
        wrong = dice.random(size) < rate * hearing.substituted
        similar = self._similar[words, dice.integers(ALIKE, size=size)]
        wrong &= similar != words
        words[wrong], cases[wrong] = similar[wrong], UNLABELLED
        # A dropped word leaves its mark to the word before it. The first word is never dropped.
        lost = dice.random(size) < rate * hearing.dropped * np.where(np.isin(words, self._short), 2.0, 0.5)
        lost[0] = False
        for place in np.flatnonzero(lost)[::-1]:
            if marks[place - 1] == 0:
                marks[place - 1] = marks[place]
        words, marks, cases = words[~lost], marks[~lost], cases[~lost]
        added = np.flatnonzero(dice.random(len(words)) < rate * hearing.inserted)
        if len(added) and len(self._short):
            # The word is inserted before another one, so it has no mark itself.
            words = np.insert(words, added, dice.choice(self._short, len(added)))
            marks, cases = np.insert(marks, added, 0), np.insert(cases, added, UNLABELLED)
        return words, marks, cases

    def _paused(self, marks: Integers) -> Integers:
        """Draw the numbers of the pauses before the words. 0 is an unknown pause, as before the first word."""
        dice, hearing = self._dice, self._hearing
        pauses = np.zeros(len(marks), dtype=np.int64)
        choice = dice.random()
        if choice < hearing.timeless_share or len(marks) < 2:
            return pauses
        statistics = READ_ALOUD
        if choice < hearing.timeless_share + hearing.hesitant_share:
            statistics = hesitant(READ_ALOUD, 0.25 * dice.random())
        chances = statistics.cumsum(axis=1)[np.maximum(marks[:-1], 0)]
        drawn = 1 + (dice.random(len(marks) - 1)[:, None] * chances[:, -1:] > chances[:, :-1]).sum(axis=1)
        pauses[1:] = np.where(dice.random(len(drawn)) < 0.02, 0, drawn)
        return pauses

    def _short_words(self) -> Integers:
        """Return the words that recognisers lose and add: the most frequent ones."""
        counts = np.zeros(len(self._similar), dtype=np.int64)
        for text in self._sources:
            counts += np.bincount(text.words, minlength=len(counts))
        return np.argsort(-counts)[:30].astype(np.int64)
