"""SpecAugment: hides bands and stretches of the features, so that the model does not rely on single clues."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.training.augmentation.conditions import Conditions

HOPS_A_FRAME = 4


def masked(mel: Tensor, lengths: Tensor, conditions: Conditions, generator: torch.Generator) -> Tensor:
    """Return features [rows, hops, mels] in which some bands and stretches have their mean. `lengths` are in frames."""
    rows, hops, mels = mel.shape
    keep = torch.ones(rows, hops, mels, dtype=torch.bool, device=mel.device)
    bands, times = torch.arange(mels, device=mel.device), torch.arange(hops, device=mel.device)
    spans = (lengths * HOPS_A_FRAME).cpu()
    for _ in range(conditions.bands):
        width = torch.rand(rows, generator=generator) * conditions.widest_band
        start = torch.rand(rows, generator=generator) * (mels - width)
        keep &= ~_between(bands, start, start + width).unsqueeze(1)
    longest = (spans * conditions.longest_share).clamp(max=conditions.longest_stretch)
    for _ in range(conditions.stretches):
        width = torch.rand(rows, generator=generator) * longest
        start = torch.rand(rows, generator=generator) * (spans - width)
        keep &= ~_between(times, start, start + width).unsqueeze(2)
    return mel * keep


def _between(positions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    device = positions.device
    return (positions >= start.to(device).unsqueeze(1)) & (positions < end.to(device).unsqueeze(1))
