"""Muon makes matrices orthogonal, and reduces a loss."""

from __future__ import annotations

import torch
from torch import nn

from streamer.training.acoustic.muon import Muon, orthogonal


def test_orthogonal_matrices_have_singular_values_near_one() -> None:
    """The iteration works for tall and wide matrices of one batch."""
    torch.manual_seed(0)
    for shape in ((3, 20, 8), (3, 8, 20)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert values.min() > 0.5
        assert values.max() < 1.4


def test_muon_goes_downhill() -> None:
    """A matrix approaches the one with the smallest loss."""
    torch.manual_seed(0)
    matrix, wanted = nn.Parameter(torch.zeros(8, 8)), torch.randn(8, 8)
    muon = Muon([matrix], torch.float32)
    before = float((matrix - wanted).square().mean().detach())
    for _ in range(60):
        matrix.grad = None
        (matrix - wanted).square().sum().backward()
        muon.step(0.05)
    assert float((matrix - wanted).square().mean().detach()) < before / 2
