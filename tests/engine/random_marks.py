"""A punctuation model with random weights: it puts marks and capitals anywhere, but the same to the same words."""

from __future__ import annotations

from functools import cache

import torch

from streamer.engine.text.punctuation_model import NetworkShape, PunctuationModel
from workshop.punctuation.fitting import MarkNetwork

SHAPE = NetworkShape(embedding=16, width=16, views=((-3, -1, 0, 1), (-4, 0, 2)))


@cache
def random_marks(seed: int = 1) -> PunctuationModel:
    """Return a model that sees seven words back and three ahead."""
    dice = torch.Generator().manual_seed(seed)
    network = MarkNetwork(SHAPE)
    with torch.no_grad():
        for name, part in network.named_parameters():
            if not name.startswith("norms"):
                part.copy_(torch.randn(part.shape, generator=dice) * 0.5)
    vectors = torch.randn(259, SHAPE.embedding, generator=dice).numpy()
    return PunctuationModel.build(["a", "b"], vectors, SHAPE, network.weights())
