"""The consistency loss (CR-CTC, Yao et al. 2024): two differently masked views of the same audio must agree.

a and b are the outputs of a head for the two views of a frame. `fixed` means that no gradient goes through that one.
The loss is

    1/2 KL(b, fixed || a)  +  1/2 KL(a, fixed || b)     summed over the frames inside the utterances

The views are rows of one batch: first those of the first view, then those of the second.
"""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.training.acoustic.batches import Batch

VIEWS = 2


def doubled(batch: Batch) -> Batch:
    """Return the batch for both views. Its audio stays as it is, because the views differ only in their masks."""
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
    """Return the loss of log-probabilities [2 * rows, frames, units], summed over all frames."""
    first, second = emissions.chunk(VIEWS)
    inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths.chunk(VIEWS)[0].unsqueeze(1)
    both = _divergence(second.detach(), first) + _divergence(first.detach(), second)
    return 0.5 * (both * inside).sum()


def _divergence(target: Tensor, output: Tensor) -> Tensor:
    return (target.exp() * (target - output)).sum(-1)
