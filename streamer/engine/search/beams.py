"""The beams of all slots. A beam has the hypotheses of a slot as rows of numbers.

The mass of a hypothesis is the sum of the probabilities of its CTC paths and pronunciations, times the probability of
its words. It is not a logarithm, so two hypotheses are merged by addition. After every step, the masses are scaled so
that the greatest is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamer.engine.language.lexicon import ROOT

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
