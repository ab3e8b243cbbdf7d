"""The beams of all slots: the hypotheses of each, as rows of numbers.

The mass of a hypothesis is the sum of the probabilities of its CTC paths and pronunciations, times the probability of
its words. It is a linear float64, so merging two hypotheses means adding. After every step masses are scaled so that
the greatest is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.lexicon import ROOT

HYPOTHESIS = np.dtype(
    [
        ("history", np.int64),  # a hash of all words
        ("node", np.int32),  # of the lexicon's trie
        ("older", np.int32),  # the last two words
        ("last", np.int32),
        ("back", np.int32),  # where to find the list of all words
        ("start", np.int32),  # of the running word: its first frame, the frame after its last phone, ...
        ("end", np.int32),
        ("start_mass", np.float64),  # ... and the mass with which it began
        ("gain", np.float64),  # what the neural language model has added to the score of all words (natural log)
        ("total", np.float64),  # the mass of all paths, and of those that end in a blank
        ("in_blank", np.float64),
    ],
    align=True,
)
"""A hypothesis. One whose mass is zero is dead: there is room for another."""

ENDED_WORD = np.dtype(
    [
        ("before", np.int32),  # the history: a row of the beam before the step, or its size plus another ended word
        ("word", np.int32),
        ("start", np.int32),  # its first frame, and the frame after its last
        ("end", np.int32),
        ("phones", np.int32),
        ("probability", np.float64),  # of all of them
    ],
    align=True,
)
"""A word that ended in a step."""

Records = NDArray[np.void]


class Beams:
    """The beams of some slots, best hypothesis first."""

    def __init__(self, slots: int, beam: int, start: tuple[int, int]) -> None:
        """`start`: the two words that the language model has before a sentence."""
        self.hypotheses: Records = np.zeros((slots, beam), HYPOTHESIS)
        self.scale = np.zeros(slots)  # the natural log of the factor that the masses were divided by
        self.frames = np.zeros(slots, np.int64)  # read since the start of the segment
        self._start = start

    def reset(self, slot: int) -> None:
        """Begin a segment: one hypothesis at the root, without words."""
        self.hypotheses[slot] = np.zeros((), HYPOTHESIS)
        first = self.hypotheses[slot, :1]
        first["node"], first["total"], first["in_blank"] = ROOT, 1.0, 1.0
        first["older"], first["last"] = self._start
        self.scale[slot], self.frames[slot] = 0.0, 0

    def rescore(self, slot: int, gains: Sequence[float], look_ahead: NDArray[np.float32]) -> list[int]:
        """Let each hypothesis of a slot have this gain, and sort them again. Returns their former places.

        The best one is that whose mass times the look-ahead of its node is the greatest.
        """
        rows = self.hypotheses[slot]
        total = rows["total"]
        factors = np.exp(np.asarray(gains) - rows["gain"])
        order = (-total * factors * look_ahead[rows["node"]]).argsort(kind="stable")
        peak = (total * factors).max()
        rows["gain"] = gains
        for name in ("total", "in_blank", "start_mass"):  # the running word is as likely as it was
            rows[name] *= factors / peak
        rows[:] = rows.take(order)
        self.scale[slot] += np.log(peak)
        found: list[int] = order.tolist()
        return found

    def drop(self, slot: int, rows: Sequence[int]) -> None:
        """Let these hypotheses be dead."""
        self.hypotheses["total"][slot, rows] = 0.0
        self.hypotheses["in_blank"][slot, rows] = 0.0
