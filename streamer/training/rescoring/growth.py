"""Makes a neural language model larger without changing its scores, so that its training need not begin again."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.language.neural_model import NeuralModel

GATES = 4  # the gates of an LSTM


@torch.no_grad()
def grow(small: NeuralModel, large: NeuralModel) -> None:
    """Write a trained model into a fresh one that is nowhere smaller.

    The new numbers of the large model are random, but the old part does not read them yet. So the words of the small
    model keep their scores, and the new numbers can learn from the first step on.
    """
    _put(small.vectors.weight, large.vectors.weight)
    _put(small.bias, large.bias)
    for old, new in zip(small.expect.parameters(), large.expect.parameters(), strict=True):
        _put(old, new.zero_())
    for old, new in zip(small.recall.parameters(), large.recall.parameters(), strict=True):
        for old_gate, new_gate in zip(old.chunk(GATES), new.chunk(GATES), strict=True):
            new_gate[: len(old_gate)] = 0
            _put(old_gate, new_gate)


def _put(old: Tensor, new: Tensor) -> None:
    new[tuple(slice(size) for size in old.shape)] = old
