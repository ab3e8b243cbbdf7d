"""Padded batches have the same denominators, and few sizes serve all of them. Recordings themselves need a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.training.phones.denominator import NgramTables
from streamer.training.phones.phone_ngram import estimate
from streamer.training.phones.recorded_denominator import Compute, RecordedDenominator, Recording, padded_size
from tests.training.phones.all_paths import SEQUENCES, UNITS, log_potentials


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
