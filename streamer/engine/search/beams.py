"""The beams of all slots. A beam has the hypotheses of a slot as rows of numbers.

The mass of a hypothesis is the sum of the probabilities of its CTC paths and pronunciations, times the probability of
its words. It is not a logarithm, so two hypotheses are merged by addition. After every step, the masses are scaled so
that the greatest is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamer.engine.array_memory import array_with_room
from streamer.engine.language.lexicon import ROOT

HYPOTHESIS = np.dtype(
    [
        ("history", np.int64),  # a hash of all words
        ("node", np.int32),  # the node of the trie
        ("older", np.int32),  # the last word but one
        ("last", np.int32),  # the last word
        ("back", np.int32),  # within a step: the history, as in `ENDED_WORD`
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


class StepRecords(NamedTuple):
    """The words that ended in a step of some slots."""

    slots: NDArray[np.int64]
    records: Records  # [slots, places] of `ENDED_WORD`
    counts: NDArray[np.int64]  # [slots]: how many there are


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


# The histories of the rows. The rows of a beam have only hashes of their words.

WORD = np.dtype(
    [
        ("before", np.int32),  # the place of the word before it; 0 if there is none after the settled words
        ("word", np.int32),
        ("start", np.int32),
        ("end", np.int32),
        ("phones", np.int32),
        ("number", np.int32),  # counts the words of the segment, so that a word is known again
        ("probability", np.float64),
    ],
    align=True,
)
"""A word in the histories of some hypotheses. `ENDED_WORD` has the other fields."""

NOTE = np.dtype(
    [
        ("word", np.int32),
        ("start", np.int32),
        ("end", np.int32),
        ("steps", np.int32),  # in how many steps it was a word of the best hypothesis that could still change
        ("total", np.float64),  # the sum of its shares in these steps
    ],
    align=True,
)
"""How much of the beam agreed on a word of the best hypothesis while the word could still change."""

SHOWN = np.dtype(
    [
        ("settled", np.int32),  # the number of settled words
        ("fresh", np.int32),  # how many of them were settled in the step
        ("same", np.int32),  # how many words at the start are those of the step before
        ("words", np.int32),  # the number of all words
        ("told", np.int32),  # how many of them were not settled, as `HistoryArrays.told`
        ("last", np.int32),  # the running word, if one ends here; else NO_WORD
        ("start", np.int32),  # the first frame of the running word; NO_FRAME if none is running
        ("end", np.int32),
        ("changed", np.bool_),  # whether anything differs from the step before
        ("posterior", np.float64),  # of the running word
    ],
    align=True,
)
"""The best hypothesis of a slot after a step."""

NO_WORD = NO_FRAME = -1


class HistoryArrays(NamedTuple):
    """The words of every row of the beams, and what was told of the best one. The first index is the slot."""

    words: Records  # [slots, places]: a word stands behind the word before it; place 0 is the end of the settled words
    used: NDArray[np.int64]  # [slots]: how many places are used
    rows: NDArray[np.int32]  # [slots, beam]: the place of the last word of each row
    numbers: NDArray[np.int64]  # [slots]: how many words there were in the segment
    line: Records  # [slots, places]: the words of the best hypothesis that were not settled before the step
    told: NDArray[np.int32]  # [slots, places]: the numbers of those in `line` that were not settled after the step
    shown: Records  # [slots]
    notes: Records  # [slots, places]
    noted: NDArray[np.int64]  # [slots]: the number of notes


class Histories:
    """The histories of all slots. They grow by what a step can bring at most.

    While one thread computes steps of some slots, another one may reset other slots.
    """

    def __init__(self, slots: int, beam: int) -> None:
        self._growing = Lock()  # what is written while the arrays are copied would be lost
        self.arrays = HistoryArrays(
            words=np.zeros((slots, 1), WORD),
            used=np.ones(slots, np.int64),
            rows=np.zeros((slots, beam), np.int32),
            numbers=np.zeros(slots, np.int64),
            line=np.empty((slots, 1), WORD),
            told=np.empty((slots, 1), np.int32),
            shown=np.zeros(slots, SHOWN),
            notes=np.empty((slots, 1), NOTE),
            noted=np.zeros(slots, np.int64),
        )

    def reset(self, slot: int) -> None:
        """Begin a segment."""
        with self._growing:
            arrays = self.arrays
            arrays.words[slot, 0] = np.zeros((), WORD)
            arrays.used[slot], arrays.numbers[slot], arrays.noted[slot] = 1, 0, 0
            arrays.rows[slot] = 0
            arrays.shown[slot] = np.zeros((), SHOWN)
            arrays.shown[slot]["last"], arrays.shown[slot]["start"] = NO_WORD, NO_FRAME

    def reserve(self, slots: Sequence[int], more: int) -> None:
        """Make room for this many more words in each of these slots. No other thread may compute steps meanwhile."""
        numbers = list(slots)
        with self._growing:
            arrays = self.arrays
            needed = int(arrays.used[numbers].max()) + more
            if needed > arrays.words.shape[1]:
                grown = (arrays.words, arrays.line, arrays.told)
                words, line, told = (grown_by_row(each, 2 * needed, arrays.used) for each in grown)
                self.arrays = arrays = arrays._replace(words=words, line=line, told=told)
            needed += int(arrays.noted[numbers].max())
            if needed > arrays.notes.shape[1]:
                self.arrays = arrays._replace(notes=grown_by_row(arrays.notes, 2 * needed, arrays.noted))


def grown_by_row(array: NDArray[Any], places: int, used: NDArray[np.int64]) -> NDArray[Any]:
    """Return an array with this many places in each row. Places that were never used take no memory."""
    grown = array_with_room(array.dtype, (len(array), places))
    for row, number in enumerate(used.tolist()):
        grown[row, :number] = array[row, :number]
    return grown
