"""CTC-CRF gives a probability of the labels, and its parts are right."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from streamer.training.acoustic.units import collapse
from streamer.training.phones.ctc_crf import log_weights, sequence_losses
from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.phone_ngram import ORDERS, estimate
from tests.training.phones.all_paths import SEQUENCES, UNITS, log_potentials, log_sum

CPU = torch.device("cpu")


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
