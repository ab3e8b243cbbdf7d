"""CTC-CRF: its sum over all label sequences equals that over every single path, also in padded batches."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from tests.workshop.phones.all_paths import BOUNDARY, SEQUENCES, UNITS, log_potentials, log_sum
from workshop.acoustic.units import collapse
from workshop.phones.denominator import (
    Compute,
    NgramTables,
    RecordedDenominator,
    Recording,
    log_denominator,
    log_weights,
    padded_size,
    sequence_losses,
)
from workshop.phones.phone_ngram import ORDERS, estimate

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


class Repetition(Recording):
    """Computes again what a recording would play."""

    made = 0

    def __init__(self, compute: Compute, emissions: Tensor, lengths: Tensor) -> None:
        Repetition.made += 1
        self._compute, self._size = compute, emissions.shape

    def play(self, emissions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Compute, if the size is the one that was recorded."""
        assert emissions.shape == self._size
        return self._compute(emissions, lengths)


def test_padding_changes_nothing() -> None:
    """Totals and occupations of a batch are those without padding, and a size is recorded once."""
    tables = NgramTables(estimate(SEQUENCES, UNITS, 3), torch.device("cpu"))
    recorded = RecordedDenominator(tables.totals_and_occupations, Repetition)
    for rows, frames in ((3, 60), (5, 50), (12, 60)):
        emissions, lengths = log_potentials(rows, frames), torch.randint(1, frames + 1, (rows,))
        for found, wanted in zip(
            recorded(emissions, lengths), tables.totals_and_occupations(emissions, lengths), strict=True
        ):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert Repetition.made == 2


def test_few_sizes_serve_all_batches() -> None:
    """Every size holds its batch, and batches of a thousand seconds need about three dozen of them."""
    sizes = set()
    for frames in range(40, 700):
        for rows in (int(share * 25000 / frames) for share in (0.85, 0.95, 1.0)):
            size = padded_size(rows, frames)
            assert size[0] >= rows
            assert size[1] >= frames
            sizes.add(size)
    assert len(sizes) < 40


@pytest.mark.parametrize("order", ORDERS)
def test_the_probabilities_of_all_label_sequences_sum_to_one(order: int) -> None:
    """The probabilities of all label sequences that fit into four frames sum to one."""
    tables = NgramTables(estimate(SEQUENCES, UNITS, order), CPU)
    emissions = log_potentials(1, 4)
    total = 0.0
    for labels in {tuple(collapse(path)) for path in product(range(UNITS), repeat=4)}:
        found = sequence_losses(
            emissions, torch.tensor([4]), torch.tensor(labels, dtype=torch.int64), torch.tensor([len(labels)]), tables
        )
        total += float((-(found.ctc + found.denominator + found.prior)).exp())
    assert total == pytest.approx(1, abs=1e-4)


def test_a_batch_equals_its_rows_in_value_and_gradient() -> None:
    """Each part equals the sum over every path; a row whose labels do not fit is not counted."""
    ngram = estimate(SEQUENCES, UNITS, 3)
    # torch's CTC gives the gradient that is right behind a softmax, and only there.
    logits = (log_potentials(3, 5) + 1).requires_grad_(True)
    emissions = logits.log_softmax(-1)
    targets, lengths = [[1, 3, 2], [2, 2, 2], [1]], [5, 4, 2]
    found = sequence_losses(
        emissions,
        torch.tensor(lengths),
        torch.tensor([unit for row in targets for unit in row]),
        torch.tensor([len(row) for row in targets]),
        NgramTables(ngram, CPU),
    )
    rows = [0, 2]
    numerator = torch.stack([log_sum(emissions[row, : lengths[row]], None, targets[row]) for row in rows]).sum()
    denominator = torch.stack([log_sum(emissions[row, : lengths[row]], ngram) for row in rows]).sum()
    torch.testing.assert_close(found.ctc, -numerator, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.denominator, denominator, atol=1e-4, rtol=1e-4)
    assert found.prior.item() == pytest.approx(-sum(ngram.log_weight(targets[row]) for row in rows), abs=1e-4)
    (gradient,) = torch.autograd.grad(found.mixed(0.2), logits, retain_graph=True)
    (expected,) = torch.autograd.grad(-numerator + 0.8 * denominator, logits)
    torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=1e-4)
    assert not gradient[1].any()


@pytest.mark.parametrize("order", ORDERS)
def test_weights_of_a_batch_are_those_of_its_sequences(order: int) -> None:
    """The weights of sequences of any length include their ends."""
    ngram = estimate(SEQUENCES, UNITS, order)
    targets = torch.tensor([unit for row in SEQUENCES for unit in row])
    found = log_weights(targets, torch.tensor([len(row) for row in SEQUENCES]), NgramTables(ngram, CPU))
    wanted = torch.tensor([ngram.log_weight(row) for row in SEQUENCES])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
