"""Sums over every single path through a small CTC head, to compare the fast recursions with."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from workshop.acoustic.units import collapse
from workshop.phones.phone_ngram import PhoneNgram

UNITS = 4
"""The blank, two phones, and a boundary that is unit 3."""
BOUNDARY = 3
SEQUENCES = [[1, 3, 2, 3], [1, 2, 3], [2, 2, 1, 3, 1, 3], [1, 1, 3], [2, 3, 2, 3]]


def log_potentials(rows: int, frames: int) -> Tensor:
    """Return random log-potentials of a head that is unsure."""
    torch.manual_seed(rows + frames)
    return (2 * torch.randn(rows, frames, UNITS)).log_softmax(-1)


def log_sum(emissions: Tensor, ngram: PhoneNgram | None, target: list[int] | None = None) -> Tensor:
    """Return ln of the sum over the paths of one row [frames, units]: all of them, or those that mean the target."""
    scores = []
    for path in product(range(emissions.shape[1]), repeat=len(emissions)):
        labels = collapse(path)
        if target is None or labels == target:
            weight = ngram.log_weight(labels) if ngram else 0.0
            scores.append(emissions[torch.arange(len(path)), list(path)].sum() + weight)
    return torch.stack(scores).logsumexp(0)
