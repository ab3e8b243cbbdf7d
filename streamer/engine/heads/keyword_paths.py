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
        """`pronunciations`: the number of a word, and its phones as numbers of units. Every word has one or more."""
        ordered = sorted(pronunciations, key=lambda each: each[0])
        units = [[BOUNDARY, *phones, BOUNDARY] for _, phones in ordered]
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
        self._first_of = np.searchsorted([word for word, _ in ordered], np.arange(words))

    def begin(self, streams: int = 1) -> Floats:
        """Nothing was heard yet: where speech begins, no boundary is needed."""
        scores = np.full((streams, *self._units.shape), IMPOSSIBLE, np.float32)
        scores[:, :, 1] = 0
        return scores

    def follow(self, scores: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Read the probabilities of units in some frames: [streams, frames, units].

        Returns what is known then, and the score of each word after each frame: [streams, frames, words].
        """
        costs = np.log(shares + 1e-10)
        costs -= costs.max(axis=2, keepdims=True)
        found = np.empty((*costs.shape[:2], len(self._first_of)), np.float32)
        for frame in range(costs.shape[1]):
            best = scores.copy()
            np.maximum(best[:, :, 1:], scores[:, :, :-1], out=best[:, :, 1:])
            np.maximum(best[:, :, 2:], scores[:, :, :-2] + self._skips[:, 2:], out=best[:, :, 2:])
            best[:, :, 0] = 0  # a path may begin anywhere
            scores = np.maximum(best + costs[:, frame][:, self._units], IMPOSSIBLE)
            found[:, frame] = np.maximum.reduceat(scores[:, self._every, self._last], self._first_of, axis=1)
            scores[:, self._every, self._last] = IMPOSSIBLE  # a word ends with the first frame of a boundary, once
        return scores, found
