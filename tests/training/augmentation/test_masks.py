"""Bands and stretches of features are masked, within bounds."""

from __future__ import annotations

import torch

from streamer.training.augmentation.conditions import CONDITIONS
from streamer.training.augmentation.masks import masked


def test_masks_keep_to_their_sizes() -> None:
    """Masks have bounds in rows of any length, and hard conditions mask more."""
    hidden = {}
    for name, conditions in CONDITIONS.items():
        generator = torch.Generator().manual_seed(0)
        lengths = torch.tensor([100, 60, 3] * 20)
        left = masked(torch.ones(60, 400, 80), lengths, conditions, generator)
        assert set(left.unique().tolist()) == {0.0, 1.0}
        bands = (left.amax(1) == 0).sum(1)
        assert 0 < bands.max() <= conditions.bands * (conditions.widest_band + 1)
        stretches = (left.amax(2) == 0).sum(1)
        longest = (lengths * 4 * conditions.longest_share).clamp(max=conditions.longest_stretch)
        assert (stretches <= conditions.stretches * (longest + 1)).all()
        hidden[name] = 1 - left.mean()
    assert hidden["hard"] > 1.3 * hidden["usual"]
