"""The denominator of CTC-CRF on a GPU: its work is recorded once for each size of batches, and played for all of them.

The recursions are thirty small operations for each frame. A GPU computes them faster than Python can ask for them: on
an H200, 62 rows of 384 frames took 195 ms when they were asked for, and 39 ms when a recording (CUDA graph) was played.
A recording only fits tensors of one size, so batches are padded to one of few sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

Compute = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Returns ln Z [rows] and the occupations [rows, frames, units] from log-potentials and lengths."""

FRAMES = 64
GROWTH = 1.25
FEWEST_ROWS = 8


def padded_size(rows: int, frames: int) -> tuple[int, int]:
    """Return the smallest of the few sizes that hold this many rows and frames."""
    enough = FEWEST_ROWS
    while enough < rows:
        enough = int(enough * GROWTH)
    return enough, -(-frames // FRAMES) * FRAMES


class RecordedDenominator:
    """Computes denominators with a recording for each size."""

    def __init__(self, compute: Compute, record: Callable[[Compute, Tensor, Tensor], Recording] | None = None) -> None:
        self._compute = compute
        self._record = record or Recording
        self._recordings: dict[tuple[int, int], Recording] = {}

    def __call__(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln Z and the occupations, as `compute` does."""
        rows, frames = emissions.shape[:2]
        size = padded_size(rows, frames)
        # Rows of one frame are added, and frames after the end of the other rows.
        padding = (0, 0, 0, size[1] - frames, 0, size[0] - rows)
        emissions = functional.pad(emissions, padding)
        lengths = functional.pad(lengths, (0, size[0] - rows), value=1)
        if size not in self._recordings:
            self._recordings[size] = self._record(self._compute, emissions, lengths)
        total, occupations = self._recordings[size].play(emissions, lengths)
        return total[:rows].clone(), occupations[:rows, :frames].clone()


class Recording:
    """The work for one size, as a CUDA graph. All recordings share their memory, so a result must be copied at once."""

    _memory: ClassVar[Any] = None

    def __init__(self, compute: Compute, emissions: Tensor, lengths: Tensor) -> None:
        self._emissions, self._lengths = emissions.clone(), lengths.clone()
        # The first call of an operation may prepare something that cannot be recorded.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            compute(self._emissions[:, :2].contiguous(), self._lengths.clamp(max=2))
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        if Recording._memory is None:
            Recording._memory = torch.cuda.graph_pool_handle()
        with torch.cuda.graph(self._graph, pool=Recording._memory):
            self._results = compute(self._emissions, self._lengths)

    def play(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results for other values. They are overwritten by the next recording that plays."""
        self._emissions.copy_(emissions)
        self._lengths.copy_(lengths)
        self._graph.replay()
        return self._results
