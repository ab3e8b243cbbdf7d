"""The beams of all slots. A beam has the hypotheses of a slot as rows of numbers.

The mass of a hypothesis is the sum of the probabilities of its CTC paths and pronunciations, times the probability of
its words. It is not a logarithm, so two hypotheses are merged by addition. After every step, the masses are scaled so
that the greatest is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.lexicon import ROOT
from streamer.engine.search.search import HypothesisWord

HYPOTHESIS = np.dtype(
    [
        ("history", np.int64),  # a hash of all words
        ("node", np.int32),  # the node of the trie
        ("older", np.int32),  # the last word but one
        ("last", np.int32),  # the last word
        ("back", np.int32),  # the place of the list of all words
        ("start", np.int32),  # the first frame of the running word
        ("end", np.int32),  # the frame after the last phone of the running word
        ("start_mass", np.float64),  # the mass with which the running word began
        ("gain", np.float64),  # the gain of all words from the neural language model (natural log)
        ("total", np.float64),  # the mass of all paths
        ("in_blank", np.float64),  # the mass of the paths that end in a blank
    ],
    align=True,
)
"""A hypothesis. If its mass is zero, it is dead, and another one may take its row."""

ENDED_WORD = np.dtype(
    [
        ("before", np.int32),  # the history: a row of the beam before the step, or its size plus another ended word
        ("word", np.int32),
        ("start", np.int32),  # the first frame
        ("end", np.int32),  # the frame after the last one
        ("phones", np.int32),  # the number of phones
        ("probability", np.float64),  # the probability of all phones
    ],
    align=True,
)
"""A word that ended in a step."""

Records = NDArray[np.void]


class Beams:
    """The beams of all slots, the best hypothesis first."""

    def __init__(self, slots: int, beam: int, start: tuple[int, int]) -> None:
        """`start` has the two words of the language model before a sentence."""
        self.hypotheses: Records = np.zeros((slots, beam), HYPOTHESIS)
        self.scale = np.zeros(slots)  # the natural log of the divisor of the masses
        self.frames = np.zeros(slots, np.int64)  # the number of frames since the start of the segment
        self._start = start

    def reset(self, slot: int) -> None:
        """Begin a segment with one hypothesis at the root, without words."""
        self.hypotheses[slot] = np.zeros((), HYPOTHESIS)
        first = self.hypotheses[slot, :1]
        first["node"], first["total"], first["in_blank"] = ROOT, 1.0, 1.0
        first["older"], first["last"] = self._start
        self.scale[slot], self.frames[slot] = 0.0, 0

    def rescore(self, slot: int, gains: Sequence[float], look_ahead: NDArray[np.float32]) -> list[int]:
        """Give each hypothesis of a slot this gain, and sort them again. Return their former places.

        They are sorted by their mass times the look-ahead of their node.
        """
        rows = self.hypotheses[slot]
        total = rows["total"]
        factors = np.exp(np.asarray(gains) - rows["gain"])
        order = (-total * factors * look_ahead[rows["node"]]).argsort(kind="stable")
        peak = (total * factors).max()
        rows["gain"] = gains
        for name in ("total", "in_blank", "start_mass"):  # the probability of the running word stays the same
            rows[name] *= factors / peak
        rows[:] = rows.take(order)
        self.scale[slot] += np.log(peak)
        places: list[int] = order.tolist()
        return places

    def drop(self, slot: int, rows: Sequence[int]) -> None:
        """Set the masses of these hypotheses to zero."""
        self.hypotheses["total"][slot, rows] = 0.0
        self.hypotheses["in_blank"][slot, rows] = 0.0


# The histories of a beam: the words of every hypothesis. The rows of the beam have only their hashes.

NO_HISTORY = -1

EndedWord = tuple[int, HypothesisWord]
"""The history before a word that ended in a step, and the word. The history is a row of the beam before the step, or
the size of the beam plus the number of another word that ended in the same step."""


class WordHistories:
    """The words of every row of a beam. The words with which all rows begin are settled, and stored once.

    Only words of living hypotheses are stored, so the size depends on the beam and the length of the segment.
    """

    def __init__(self, beam: int) -> None:
        self.settled: list[HypothesisWord] = []
        self.open: list[tuple[HypothesisWord, ...]] = [()] * beam

    def follow(self, rows: Sequence[int], ended: Callable[[int], EndedWord]) -> None:
        """Follow a step of the beam. `rows` has the history that each row continues; NO_HISTORY for a dead row."""
        beam = len(self.open)
        words_of: dict[int, tuple[HypothesisWord, ...]] = {NO_HISTORY: ()}
        distinct = dict.fromkeys(rows)  # many rows have the same history
        for history in distinct:
            new_words = []
            while history >= beam and history not in words_of:
                new_words.append((history, ended(history - beam)))
                history = new_words[-1][1][0]
            words = words_of[history] if history in words_of else self.open[history]
            words_of[history] = words
            for number, (_, word) in reversed(new_words):
                words_of[number] = words = (*words, word)
        count = _common([words_of[history] for history in distinct if history != NO_HISTORY])
        self.settled += words_of[rows[0]][:count]
        # Rows with the same history share one tuple, so that later code handles it once.
        rest = {history: words_of[history][count:] for history in distinct}
        self.open = [rest[history] for history in rows]

    def settle(self, count: int) -> list[int]:
        """Settle `count` more words of the first row. Drop the words of rows that begin otherwise, and return these."""
        texts = [word.text for word in self.open[0][:count]]
        different = [row for row, words in enumerate(self.open) if [word.text for word in words[:count]] != texts]
        self.settled += self.open[0][:count]
        self.open = [words[count:] for words in self.open]
        for row in different:
            self.open[row] = ()
        return different

    def reorder(self, rows: Sequence[int]) -> None:
        """Put the rows into this order."""
        self.open = [self.open[row] for row in rows]

    def words(self, row: int) -> tuple[HypothesisWord, ...]:
        """Return all words of a row."""
        return (*self.settled, *self.open[row])


def _common(histories: Sequence[tuple[HypothesisWord, ...]]) -> int:
    """Return the number of words with which all of these begin."""
    if not histories:
        return 0
    for count, word in enumerate(histories[0]):
        if any(len(words) <= count or words[count].text != word.text for words in histories):
            return count
    return len(histories[0])
