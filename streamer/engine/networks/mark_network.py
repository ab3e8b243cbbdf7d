"""The network of the punctuation model (mark_graph.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.text.mark_graph import CASES, MARKS, PAUSES, NetworkShape


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
            output = functional.relu(convolution(inputs))
            hidden = output if hidden.shape != output.shape else hidden + output
        scores = self.judge(self.norms[-1](hidden))
        return scores[..., :MARKS], scores[..., MARKS:]

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights as arrays of numpy."""
        return {name: part.numpy() for name, part in self.state_dict().items()}


def _in_view(hidden: Tensor, view: Sequence[int]) -> Tensor:
    """Return the vectors of the places in view, side by side. There are zeros beyond the ends."""
    before, after, places = -min(view), max(view), hidden.shape[1]
    padded = functional.pad(hidden, (0, 0, before, after))
    return torch.cat([padded[:, before + place : before + place + places] for place in view], dim=2)
