"""The compiled loop that aligns a line of units with the frames of a segment (`compiled_loops.py`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamer.engine.compiled_loops import compiled_loop

_NEVER = np.float32(-1e30)


@compiled_loop
def best_path(
    scores: NDArray[np.float32],
    columns: NDArray[np.int32],
    firsts: NDArray[np.int32],
    befores: NDArray[np.int32],
    begins: NDArray[np.bool_],
    ends: NDArray[np.bool_],
    states: NDArray[np.int32],
) -> float:
    """Find the best path through a graph of states, one for each frame. Return its score, and write its states.

    A state reads the column `columns[state]` of the scores [frames, columns]. Before it comes one of
    `befores[firsts[state] : firsts[state + 1]]`, which contain the state itself if it may last. A path begins in a
    state of `begins` and ends in one of `ends`. The score is very low if there is no path.
    """
    frames, count = len(scores), len(columns)
    before = np.full(count, _NEVER, np.float32)
    now = np.full(count, _NEVER, np.float32)
    back = np.zeros((frames, count), np.int16)
    for state in range(count):
        if begins[state]:
            before[state] = scores[0, columns[state]]
    for frame in range(1, frames):
        for state in range(count):
            best, place = _NEVER, 0
            first = firsts[state]
            for index in range(first, firsts[state + 1]):
                score = before[befores[index]]
                if score > best:
                    best, place = score, index - first
            now[state] = best + scores[frame, columns[state]]
            back[frame, state] = place
        before, now = now, before
    last, best = 0, _NEVER
    for state in range(count):
        if ends[state] and before[state] > best:
            last, best = state, before[state]
    for frame in range(frames - 1, -1, -1):
        states[frame] = last
        last = befores[firsts[last] + back[frame, last]]
    return float(best)
