"""Scores the pronunciations of keywords against the phones in the frames of an encoder, frame by frame.

Each pronunciation is a path of CTC: a boundary between words, its phones, and another boundary, with blanks between
them. Its score after a frame is the score of the likeliest such path that ends there. The score is 0 if the unit of the
path is the likeliest in every frame. Otherwise it is less, by the difference to the log-probability of the likeliest
unit. A path may begin in any frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLANK, BOUNDARY = 0, 1
IMPOSSIBLE = -1e9
Floats = NDArray[np.float32]


class KeywordPaths:
    """The paths of all pronunciations. The scores of a stream are in an array from `begin`."""

    def __init__(self, pronunciations: Sequence[tuple[int, Sequence[int]]], words: int) -> None:
        """A pronunciation is the number of a word, and its phones as numbers of units. Every word has at least one."""
        ordered = sorted(pronunciations, key=lambda path_units: path_units[0])
        units = [[BOUNDARY, *phones, BOUNDARY] for _, phones in ordered]
        states = 2 * max(map(len, units)) - 1
        self._units = np.zeros((len(units), states), np.int64)
        self._skips = np.full((len(units), states), IMPOSSIBLE, np.float32)  # over the blank before a unit
        self._last = np.array([2 * len(path_units) - 2 for path_units in units])
        for path, path_units in enumerate(units):
            self._units[path, : 2 * len(path_units) : 2] = path_units
            for number in range(1, len(path_units)):
                if path_units[number] != path_units[number - 1]:
                    self._skips[path, 2 * number] = 0
        self._every = np.arange(len(units))
        self._first_of = np.searchsorted([word for word, _ in ordered], np.arange(words))

    def begin(self, streams: int = 1) -> Floats:
        """Return the scores before the first frame. Speech may begin without a boundary."""
        scores = np.full((streams, *self._units.shape), IMPOSSIBLE, np.float32)
        scores[:, :, 1] = 0
        return scores

    def follow(self, scores: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Read the probabilities of the units in frames: [streams, frames, units].

        Return the new scores of the paths, and the score of each word after each frame: [streams, frames, words].
        """
        costs = np.log(shares + 1e-10)
        costs -= costs.max(axis=2, keepdims=True)
        word_scores = np.empty((*costs.shape[:2], len(self._first_of)), np.float32)
        for frame in range(costs.shape[1]):
            best = scores.copy()
            np.maximum(best[:, :, 1:], scores[:, :, :-1], out=best[:, :, 1:])
            np.maximum(best[:, :, 2:], scores[:, :, :-2] + self._skips[:, 2:], out=best[:, :, 2:])
            best[:, :, 0] = 0  # a path may begin anywhere
            scores = np.maximum(best + costs[:, frame][:, self._units], IMPOSSIBLE)
            word_scores[:, frame] = np.maximum.reduceat(scores[:, self._every, self._last], self._first_of, axis=1)
            scores[:, self._every, self._last] = IMPOSSIBLE  # a word ends once, in the first frame of a boundary
        return scores, word_scores
