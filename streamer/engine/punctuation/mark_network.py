"""The network that reads words: a few convolutions over word vectors, with a fixed view back and ahead.

The answer for a word must be the same bits wherever the word stands in a batch. So all sums over the width are computed
by products of blocks of the same shape, everything else works on single words, and places without a word are zero.
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

# In milliseconds: the pauses that the network tells apart. Number 0 stands for an unknown one.
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
        """From the values of `asdict`, as they are read from JSON."""
        views = tuple(tuple(int(place) for place in view) for view in values["views"])
        if not views or not all(view and 0 in view for view in views):
            raise ValueError("every convolution must see its own place")
        return cls(int(values["embedding"]), int(values["width"]), views)

    def values(self) -> dict[str, Any]:
        """The shape for JSON."""
        return asdict(self)

    @property
    def behind(self) -> int:
        """How many words before a word its answer depends on."""
        return -sum(min(view) for view in self.views)

    @property
    def ahead(self) -> int:
        """How many words after a word its answer depends on."""
        return sum(max(view) for view in self.views)

    @property
    def gap(self) -> int:
        """How many empty places must lie between texts in a row, so that they do not see each other."""
        return max(max(-min(view), max(view)) for view in self.views)


class MarkNetwork(nn.Module):
    """Word vectors and pauses in, scores of the marks and cases out."""

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

    def forward(self, vectors: Tensor, pauses: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of marks [rows, places, 4] and of cases [rows, places, 3].

        `vectors` [rows, places, embedding] are those of the words or `end`; `pauses` [rows, places] are the numbers of
        the pauses before them; `taken` [rows, places] is 1 where there is a word or an end, and else 0.
        """
        held = taken.unsqueeze(2)
        hidden = vectors + self.pauses(pauses)
        for norm, convolution, view in zip(self.norms, self.convolutions, self.shape.views, strict=False):
            seen = _seen(norm(hidden) * held, view)
            found = functional.relu(_product(seen, convolution))
            hidden = found if hidden.shape != found.shape else hidden + found
        scores = _product(self.norms[-1](hidden), self.judge)
        return scores[..., :MARKS], scores[..., MARKS:]


def pause_number(pause_ms: int | None) -> int:
    """The number of a pause for the network."""
    if pause_ms is None:
        return 0
    return 1 + sum(pause_ms >= bound for bound in PAUSE_BOUNDS)


def _seen(hidden: Tensor, view: Sequence[int]) -> Tensor:
    """The vectors of the places in view, side by side. Beyond the ends there are zeros."""
    before, after, places = -min(view), max(view), hidden.shape[1]
    padded = functional.pad(hidden, (0, 0, before, after))
    return torch.cat([padded[:, before + place : before + place + places] for place in view], dim=2)


def _product(values: Tensor, linear: nn.Module) -> Tensor:
    """What the linear layer makes of the values [rows, places, width]."""
    assert isinstance(linear, nn.Linear)
    rows, places, width = values.shape
    if linear.weight.requires_grad or rows * places % BLOCK:
        return functional.linear(values, linear.weight, linear.bias)
    blocks = values.reshape(-1, BLOCK, width)
    weights = linear.weight.t().expand(len(blocks), width, -1)
    return (torch.bmm(blocks, weights) + linear.bias).view(rows, places, -1)
