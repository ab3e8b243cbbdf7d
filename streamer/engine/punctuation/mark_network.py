"""The network of the punctuation model: a few convolutions over word vectors, with a fixed view back and ahead.

The bits of the answer for a word must not depend on its place in a batch. So all sums over the width are computed as
products of blocks of the same shape, all other operations work on single words, and places without a word are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCK = 32
"""The number of words in each product of matrices. The products give the same bits for any number of blocks."""

# The bounds in milliseconds between the classes of pauses. Class 0 is an unknown pause.
PAUSE_BOUNDS = (60, 140, 240, 360, 520, 760)
PAUSES = len(PAUSE_BOUNDS) + 2
MARKS = 4
CASES = 3


@dataclass(frozen=True)
class NetworkShape:
    """The size of a network. `views` has, for each convolution, the places that it sees, relative to its own."""

    embedding: int = 96
    width: int = 160
    views: tuple[tuple[int, ...], ...] = (
        (-3, -2, -1, 0, 1),
        (-3, -2, -1, 0, 1),
        (-6, -4, -2, 0, 1),
        (-4, -3, -2, -1, 0),
    )

    @classmethod
    def parse(cls, values: dict[str, Any]) -> NetworkShape:
        """Read a shape from the values of `asdict` in JSON."""
        views = tuple(tuple(int(place) for place in view) for view in values["views"])
        if not views or not all(view and 0 in view for view in views):
            raise ValueError("every convolution must see its own place")
        return cls(int(values["embedding"]), int(values["width"]), views)

    def values(self) -> dict[str, Any]:
        """Return the shape for JSON."""
        return asdict(self)

    @property
    def behind(self) -> int:
        """The number of words before a word on which its answer depends."""
        return -sum(min(view) for view in self.views)

    @property
    def ahead(self) -> int:
        """The number of words after a word on which its answer depends."""
        return sum(max(view) for view in self.views)

    @property
    def gap(self) -> int:
        """The number of empty places that must lie between two texts, so that neither sees the other."""
        return max(max(-min(view), max(view)) for view in self.views)


class MarkNetwork(nn.Module):
    """Computes the scores of marks and cases from word vectors and pauses."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.pauses = nn.Embedding(PAUSES, shape.embedding)
        self.end = nn.Parameter(torch.zeros(shape.embedding))
        sizes = [shape.embedding] + [shape.width] * len(shape.views)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in sizes)
        self.convolutions = nn.ModuleList(
            nn.Linear(size * len(view), shape.width) for size, view in zip(sizes, shape.views, strict=False)
        )
        self.judge = nn.Linear(shape.width, MARKS + CASES)

    def forward(self, vectors: Tensor, pauses: Tensor, occupied: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of marks [rows, places, 4] and of cases [rows, places, 3].

        `vectors` [rows, places, embedding] has the vectors of words or `end`; `pauses` [rows, places] has the classes
        of the pauses before them; `occupied` [rows, places] is 1 where there is a word or an end, and otherwise 0.
        """
        mask = occupied.unsqueeze(2)
        hidden = vectors + self.pauses(pauses)
        for norm, convolution, view in zip(self.norms, self.convolutions, self.shape.views, strict=False):
            inputs = _in_view(norm(hidden) * mask, view)
            output = functional.relu(_product(inputs, convolution))
            hidden = output if hidden.shape != output.shape else hidden + output
        scores = _product(self.norms[-1](hidden), self.judge)
        return scores[..., :MARKS], scores[..., MARKS:]


def pause_number(pause_ms: int | None) -> int:
    """Return the class of a pause for the network."""
    if pause_ms is None:
        return 0
    return 1 + sum(pause_ms >= bound for bound in PAUSE_BOUNDS)


def _in_view(hidden: Tensor, view: Sequence[int]) -> Tensor:
    """Return the vectors of the places in view, side by side. There are zeros beyond the ends."""
    before, after, places = -min(view), max(view), hidden.shape[1]
    padded = functional.pad(hidden, (0, 0, before, after))
    return torch.cat([padded[:, before + place : before + place + places] for place in view], dim=2)


def _product(values: Tensor, linear: nn.Module) -> Tensor:
    """Apply the linear layer to the values [rows, places, width]."""
    assert isinstance(linear, nn.Linear)
    rows, places, width = values.shape
    if linear.weight.requires_grad or rows * places % BLOCK:
        return functional.linear(values, linear.weight, linear.bias)
    blocks = values.reshape(-1, BLOCK, width)
    weights = linear.weight.t().expand(len(blocks), width, -1)
    return (torch.bmm(blocks, weights) + linear.bias).view(rows, places, -1)
