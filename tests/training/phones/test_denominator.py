"""The sum over all label sequences equals that over every single path, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from streamer.training.phones.denominator import NgramTables, log_denominator
from streamer.training.phones.phone_ngram import ORDERS, estimate
from tests.training.phones.all_paths import BOUNDARY, SEQUENCES, UNITS, log_potentials, log_sum

CPU = torch.device("cpu")
LENGTHS = [5, 1, 3]


@pytest.mark.parametrize("free", [None, BOUNDARY])
@pytest.mark.parametrize("order", ORDERS)
def test_it_equals_the_sum_over_every_path(order: int, free: int | None) -> None:
    """Rows of any length in a batch have the right sum; frames after the end of a row have no gradient."""
    ngram = estimate(SEQUENCES, UNITS, order, free)
    emissions = log_potentials(len(LENGTHS), max(LENGTHS)).requires_grad_(True)
    found = log_denominator(emissions, torch.tensor(LENGTHS), NgramTables(ngram, CPU))
    wanted = torch.stack([log_sum(row[:length], ngram) for row, length in zip(emissions, LENGTHS, strict=True)])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    factors = torch.tensor([1.0, -2.0, 0.5])
    (gradient,) = torch.autograd.grad((found * factors).sum(), emissions)
    (expected,) = torch.autograd.grad((wanted * factors).sum(), emissions)
    torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)
    assert not gradient[1, 1:].any()


def test_the_gradient_is_what_a_small_change_makes() -> None:
    """The gradient equals finite differences in one direction, on a row of many frames."""
    tables = NgramTables(estimate(SEQUENCES, UNITS, 3), CPU)
    emissions = log_potentials(2, 60).requires_grad_(True)
    lengths = torch.tensor([60, 47])
    (gradient,) = torch.autograd.grad(log_denominator(emissions, lengths, tables).sum(), emissions)
    direction = torch.randn(emissions.shape)
    with torch.no_grad():
        above, below = (
            log_denominator(emissions + step * direction, lengths, tables).sum().double() for step in (0.01, -0.01)
        )
    assert (above - below) / 0.02 == pytest.approx((gradient * direction).sum().item(), rel=1e-3, abs=1e-2)


def test_occupations_sum_to_one_in_every_frame() -> None:
    """Long rows and sure heads cause neither overflow nor underflow."""
    emissions = (40 * log_potentials(2, 400)).requires_grad_(True)
    found = log_denominator(emissions, torch.tensor([400, 399]), NgramTables(estimate(SEQUENCES, UNITS, 4), CPU))
    assert torch.isfinite(found).all()
    (gradient,) = torch.autograd.grad(found.sum(), emissions)
    torch.testing.assert_close(gradient[0].sum(-1), torch.ones(400))
    assert (gradient >= 0).all()
