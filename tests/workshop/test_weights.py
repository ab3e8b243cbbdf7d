"""The average of models."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from workshop.weights import averaged


def test_each_model_has_its_share() -> None:
    """Shares need not add up to one."""
    models = [nn.Linear(3, 2) for _ in range(3)]
    parts = [model.weight.detach().clone() for model in models]
    average = averaged(models, [2.0, 1.0, 1.0])
    torch.testing.assert_close(average.weight.detach(), 0.5 * parts[0] + 0.25 * parts[1] + 0.25 * parts[2])


def test_what_cannot_be_averaged() -> None:
    """Models of different shapes, and shares that are nothing in all."""
    with pytest.raises(ValueError, match="same shape"):
        averaged([nn.Linear(3, 2), nn.Linear(2, 2)], [1.0, 1.0])
    for shares in ([0.0, 0.0], [2.0, -1.0]):
        with pytest.raises(ValueError, match="no share may be below zero"):
            averaged([nn.Linear(3, 2), nn.Linear(3, 2)], shares)
