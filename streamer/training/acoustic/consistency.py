"""Two views of the same audio, masked differently, that must agree (CR-CTC, Yao et al. 2024).

With a and b what a head says of the two views of a frame, and no gradient through what is agreed with:

    1/2 KL(b, fixed || a)  +  1/2 KL(a, fixed || b)     summed over the frames inside the utterances

The views are rows of one batch: those of the first view, then those of the second.
"""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.training.acoustic.batches import Batch

VIEWS = 2


def doubled(batch: Batch) -> Batch:
    """The batch for both views; its audio stays as it is, for the views differ in their masks alone."""
    return Batch(
        batch.samples,
        batch.lengths.repeat(VIEWS),
        {head: target.repeat(VIEWS) for head, target in batch.targets.items()},
        {head: length.repeat(VIEWS) for head, length in batch.target_lengths.items()},
        batch.labels.repeat(VIEWS, 1),
        batch.texts * VIEWS,
        batch.seconds,
    )


def disagreement(emissions: Tensor, lengths: Tensor) -> Tensor:
    """How far the views of log-probabilities [2 * rows, frames, units] are apart, summed over all frames."""
    first, second = emissions.chunk(VIEWS)
    inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths.chunk(VIEWS)[0].unsqueeze(1)
    both = _divergence(second.detach(), first) + _divergence(first.detach(), second)
    return 0.5 * (both * inside).sum()


def _divergence(wanted: Tensor, found: Tensor) -> Tensor:
    return (wanted.exp() * (wanted - found)).sum(-1)
