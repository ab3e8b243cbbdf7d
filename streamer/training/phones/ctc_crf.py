"""The CTC-CRF loss (Xiang and Ou 2019): CTC, normalised over all label sequences.

x is the audio, and l are its labels. y are the outputs of a head, used as potentials. P is an n-gram over label
sequences. Then

    ln p(l | x) = ln (sum over the paths of l of y)  +  ln P(l)  -  ln Z

The first term is the loss of CTC with the opposite sign. The second is a constant for each transcript. `denominator.py`
computes the third. CTC alone makes l more likely. The denominator also makes other sequences less likely, above all
those that the n-gram finds probable.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from streamer.training.phones.denominator import NgramTables, log_denominator


@dataclass(frozen=True)
class SequenceLosses:
    """Sums over the rows of a batch: -ln p(l | x) is `ctc + denominator + prior`."""

    ctc: Tensor
    denominator: Tensor
    prior: Tensor

    def mixed(self, ctc_share: float) -> Tensor:
        """Return a mixture of plain CTC, with this share, and CTC-CRF without the prior, which is a constant."""
        return self.ctc + (1 - ctc_share) * self.denominator


def sequence_losses(
    emissions: Tensor, lengths: Tensor, targets: Tensor, target_lengths: Tensor, tables: NgramTables
) -> SequenceLosses:
    """Return the losses of log-potentials [batch, frames, units]. `targets` are joined to one list.

    A row whose labels do not fit into its frames is not counted.
    """
    ctc = functional.ctc_loss(
        emissions.transpose(0, 1), targets, lengths, target_lengths, reduction="none", zero_infinity=True
    )
    fits = ctc.detach() > 0  # zero_infinity has made the loss of other rows zero
    denominator = log_denominator(emissions, lengths, tables)
    prior = -log_weights(targets, target_lengths, tables)
    return SequenceLosses(ctc.sum(), (denominator * fits).sum(), (prior * fits).sum())


def log_weights(targets: Tensor, lengths: Tensor, tables: NgramTables) -> Tensor:
    """Return the natural log of the n-gram's weight for each target sequence [batch]."""
    rows = pad_sequence(list(targets.split(lengths.tolist())), batch_first=True)
    rows = functional.pad(rows, (tables.order - 1, 1))
    places = torch.arange(rows.shape[1] - tables.order + 1, device=rows.device)
    ends = lengths.to(rows.device).unsqueeze(1)
    windows = rows.unfold(1, tables.order, 1).clone()  # [batch, places, order]
    windows[..., -1] = windows[..., -1].masked_fill(places == ends, tables.units)
    weights = tables.log_weights[windows.unbind(-1)]
    return (weights * (places <= ends)).sum(1)
