"""Finds the frames of given words in a segment: the words of a reader, which knows neither times nor phones.

The line of words becomes a graph of states. A word has a row of states for each of its pronunciations. Between its
phones may be blanks, and between words a pause of blanks and boundaries. The best path through the graph gives each
word its frames. How likely its phones are there is what the recogniser itself thinks of the word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.letter_to_sound import LetterToSound
from streamer.engine.language.lexicon import ROOT, Lexicon
from streamer.engine.reader.alignment_loops import best_path
from streamer.engine.search.beam_search import BOUNDARY
from streamer.engine.search.search import BLANK

MOST_WAYS = 6  # pronunciations of a word
_GUESSES = 2  # pronunciations of a word that the lexicon does not have
_KEPT_GUESSES = 1_000  # words; a line of words is aligned many times, and a guess takes milliseconds
_UNLIKELY = -60.0  # the natural log of the probability below which a path means that the words do not fit

Units = tuple[int, ...]


@dataclass(frozen=True)
class WordFrames:
    """The frames that a word covers (`end` is exclusive), and the geometric mean of the posteriors of its phones."""

    start: int
    end: int
    posterior: float


@dataclass(frozen=True)
class Alignment:
    """The frames of each word. `score` is the natural log of the likelihood of the path, for each frame."""

    words: tuple[WordFrames, ...]
    score: float


class Aligner:
    """Aligns words with the log-probabilities of phones."""

    def __init__(
        self, lexicon: Lexicon, words: Sequence[str], units: Sequence[str], letters: LetterToSound | None = None
    ) -> None:
        """`words` are those of the lexicon by number. `letters` pronounces others; without it, they have no frames."""
        ends, words_of_ends, self._parents, _ = lexicon.arrays()
        self._units_of_nodes = lexicon.units
        order = np.argsort(words_of_ends, kind="stable")
        self._ends, self._first = ends[order], np.searchsorted(words_of_ends[order], np.arange(len(words) + 1))
        self._numbers = {word: number for number, word in enumerate(words)}
        self._unit: Mapping[str, int] = {unit: number for number, unit in enumerate(units)}
        self._letters = letters
        self._guessed = lru_cache(_KEPT_GUESSES)(self._guess)
        # When the loop runs first, it is compiled or read from disk. All streams would wait for that.
        self.align(words[:1], np.zeros((1, len(units)), dtype=np.float32))

    @property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the words of the lexicon."""
        return self._numbers

    def knows(self, word: str) -> bool:
        """Return whether the lexicon has this word."""
        return word in self._numbers

    def ways(self, word: str) -> list[Units]:
        """Return the pronunciations of a word; none if nobody can pronounce it."""
        number = self._numbers.get(word)
        if number is not None:
            ends = self._ends[self._first[number] : self._first[number + 1]].tolist()
            return [self._path(end) for end in ends[:MOST_WAYS]]
        return self._guessed(word)

    def align(self, words: Sequence[str], log_probabilities: NDArray[np.float32]) -> Alignment | None:
        """Return the frames of these words in [frames, units]. None if they do not fit into the segment.

        A word that nobody can pronounce gets the pause where it must be.
        """
        if not words or not len(log_probabilities):
            return None
        graph = _Graph(self._unit[BOUNDARY])
        for word in words:
            graph.add(self.ways(word))
        scores = graph.scores(log_probabilities.astype(np.float32, copy=False))
        states = np.zeros(len(scores), np.int32)
        best = best_path(scores, *graph.arrays(), states)
        if not math.isfinite(best) or best < _UNLIKELY * len(scores):
            return None
        return Alignment(tuple(graph.frames(states, scores)), best / len(scores))

    def _guess(self, word: str) -> list[Units]:
        if self._letters is None:
            return []
        guesses = (tuple(self._unit[phone] for phone in way) for way in self._letters.pronounce(word, _GUESSES))
        return [way for way in guesses if way]

    def _path(self, node: int) -> Units:
        units: list[int] = []
        while node != ROOT:
            units.append(int(self._units_of_nodes[node]))
            node = int(self._parents[node])
        return tuple(reversed(units))


@dataclass
class _Graph:
    """The states of a line of words. The last column of the scores is that of pauses."""

    boundary: int
    columns: list[int] = field(default_factory=list)
    befores: list[list[int]] = field(default_factory=list)
    words: list[int] = field(default_factory=list)  # the word of each state; -1 for pauses
    _exits: list[int] = field(default_factory=list)  # the states after which the next word may begin
    _begins: list[int] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._exits = [self._pause([])]
        self._begins = [0]

    def add(self, ways: Sequence[Units]) -> None:
        """Add a word with these pronunciations."""
        exits: list[int] = []
        first = not self._count
        for way in ways:
            before = list(self._exits)
            last_unit = BLANK
            for place, unit in enumerate(way):
                if place:
                    blank = self._state(BLANK, before)
                    # Between two phones that are the same, a blank is needed.
                    before = [blank] if unit == last_unit else [*before, blank]
                before = [self._state(unit, before)]
                if first and not place:
                    self._begins += before
                last_unit = unit
            exits += before
        if exits:
            self._exits = [*exits, self._pause(exits)]
        self._count += 1

    def scores(self, log_probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores of all units, and those of a pause: of a blank or a boundary."""
        pause = np.logaddexp(log_probabilities[:, BLANK], log_probabilities[:, self.boundary])
        self._pause_column = log_probabilities.shape[1]
        return np.ascontiguousarray(np.column_stack([log_probabilities, pause]), dtype=np.float32)

    def arrays(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the columns, the places in `befores`, `befores`, and where a path may begin and end."""
        columns = np.array(self.columns, np.int32)
        columns[columns < 0] = self._pause_column
        firsts = np.concatenate([[0], np.cumsum([len(each) for each in self.befores])]).astype(np.int32)
        begins, ends = np.zeros(len(columns), np.bool_), np.zeros(len(columns), np.bool_)
        begins[self._begins] = True
        ends[self._exits] = True
        return columns, firsts, np.array([state for each in self.befores for state in each], np.int32), begins, ends

    def frames(self, states: NDArray[np.int32], scores: NDArray[np.float32]) -> list[WordFrames]:
        """Return the frames of each word on a path."""
        spans: list[list[int]] = [[] for _ in range(self._count)]
        best: list[dict[int, float]] = [{} for _ in range(self._count)]  # of each phone: its greatest log-probability
        for frame, state in enumerate(states.tolist()):
            word, column = self.words[state], self.columns[state]
            if word < 0:
                continue
            spans[word].append(frame)
            if column != BLANK:
                best[word][state] = max(best[word].get(state, -math.inf), float(scores[frame, column]))
        frames: list[WordFrames] = []
        for span, phones in zip(spans, best, strict=True):
            if span:
                posterior = math.exp(sum(phones.values()) / len(phones)) if phones else 0.0
                frames.append(WordFrames(span[0], span[-1] + 1, posterior))
            else:
                place = frames[-1].end if frames else 0
                frames.append(WordFrames(place, place, 0.0))
        return frames

    def _pause(self, before: Sequence[int]) -> int:
        return self._state(-1, before, word=-1)

    def _state(self, column: int, before: Sequence[int], word: int | None = None) -> int:
        number = len(self.columns)
        self.columns.append(column)
        self.befores.append([number, *before])
        self.words.append(self._count if word is None else word)
        return number
