"""Follows the pronunciations of keywords through the phones that an encoder tells, frame by frame.

Each pronunciation is a path of CTC: a boundary between words, its phones, and a boundary again, with blanks between
them. Its score after a frame is that of the likeliest such path that ends there: 0 if every frame on it told just this
unit, and less by the log-probability that each other unit was ahead. It may begin anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLANK, BOUNDARY = 0, 1
IMPOSSIBLE = -1e9
Floats = NDArray[np.float32]


class KeywordPaths:
    """The paths of all pronunciations. What it knows of a stream is in arrays of `begin`."""

    def __init__(self, pronunciations: Sequence[tuple[int, Sequence[int]]], words: int) -> None:
        """`pronunciations`: the number of a word, and its phones as numbers of units."""
        units = [[BOUNDARY, *phones, BOUNDARY] for _, phones in pronunciations]
        states = 2 * max(map(len, units)) - 1
        self._units = np.zeros((len(units), states), np.int64)
        self._skips = np.full((len(units), states), IMPOSSIBLE, np.float32)  # over the blank before a unit
        self._last = np.array([2 * len(each) - 2 for each in units])
        for path, each in enumerate(units):
            self._units[path, : 2 * len(each) : 2] = each
            for number in range(1, len(each)):
                if each[number] != each[number - 1]:
                    self._skips[path, 2 * number] = 0
        self._every = np.arange(len(units))
        self._of_word = [[path for path, (word, _) in enumerate(pronunciations) if word == each]
                         for each in range(words)]  # fmt: skip

    def begin(self) -> Floats:
        """Nothing was heard yet: where speech begins, no boundary is needed."""
        scores = np.full(self._units.shape, IMPOSSIBLE, np.float32)
        scores[:, 1] = 0
        return scores

    def follow(self, scores: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Read the probabilities of units in some frames. Returns what is known then, and scores [frames, words]."""
        costs = np.log(shares + 1e-10)
        costs -= costs.max(axis=1, keepdims=True)
        found = np.empty((len(costs), len(self._of_word)), np.float32)
        for frame, cost in enumerate(costs):
            best = scores.copy()
            np.maximum(best[:, 1:], scores[:, :-1], out=best[:, 1:])
            np.maximum(best[:, 2:], scores[:, :-2] + self._skips[:, 2:], out=best[:, 2:])
            best[:, 0] = 0  # a path may begin anywhere
            scores = np.maximum(best + cost[self._units], IMPOSSIBLE)
            ends = scores[self._every, self._last]
            scores[self._every, self._last] = IMPOSSIBLE  # a word ends with the first frame of a boundary, once
            found[frame] = [ends[paths].max() for paths in self._of_word]
        return scores, found
