"""Compiled loops that find rows by two numbers, and rank values (`compiled_loop.py`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled.compiled_loop import compiled_loop, inlined_loop

NOBODY = -1  # means that there is no row
_MIX, _OTHER_MIX = -4417276706812531889, -7046029254386353131  # odd multipliers for a hash; products wrap around


@compiled_loop
def index_for(rows: int) -> NDArray[np.int64]:
    """Return an empty index for this many rows by two numbers. Each entry has a row or NOBODY, and its numbers."""
    size = 2
    while size < 2 * rows:
        size *= 2
    return np.full((size, 3), NOBODY)


@inlined_loop
def _entry(index: NDArray[np.int64], first: int, second: int) -> int:
    """Return the place of the entry for these two numbers, or of the free entry for them."""
    last = len(index) - 1
    entry = (((first + second * _MIX) * _OTHER_MIX) >> 32) & last
    while index[entry, 0] != NOBODY and (index[entry, 1] != first or index[entry, 2] != second):
        entry = (entry + 1) & last
    return entry


@inlined_loop
def find(index: NDArray[np.int64], first: int, second: int) -> int:
    """Return the row with these two numbers; NOBODY if there is none."""
    return index[_entry(index, first, second), 0]


@inlined_loop
def put(index: NDArray[np.int64], row: int, first: int, second: int) -> None:
    """Add this row under these two numbers."""
    entry = _entry(index, first, second)
    index[entry, 0], index[entry, 1], index[entry, 2] = row, first, second


@compiled_loop
def best_of(values: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the places of the greatest of these values, the greatest first."""
    keys, places = values.copy(), np.arange(len(values))
    # A quicksort that does not sort the parts after the first `most` places.
    waiting = [(0, len(values) - 1)]
    while waiting:
        low, high = waiting.pop()
        while low < high and low < most:
            pivot, left, right = keys[(low + high) // 2], low, high
            while left <= right:
                while keys[left] > pivot:
                    left += 1
                while keys[right] < pivot:
                    right -= 1
                if left <= right:
                    keys[left], keys[right] = keys[right], keys[left]
                    places[left], places[right] = places[right], places[left]
                    left, right = left + 1, right - 1
            waiting.append((left, high))
            high = right
    return places[:most]
