"""Other voices: a longer or shorter vocal tract moves all resonances of a voice by one factor, at the same tempo."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.models.features import HIGHEST_HZ, mel_centres

KNEE_HZ = 4800.0
"""Above it, the frequencies of speech are moved less and less, so that none leaves the band."""


def with_other_voices(mel: Tensor, factors: Tensor) -> Tensor:
    """Return features [rows, hops, mels] of voices whose resonances are higher by these factors, one for each row."""
    centres = mel_centres(mel.shape[2]).float().to(mel.device)
    positions = _moved(centres, factors.unsqueeze(1)).contiguous()
    # A moved feature lies between `upper` and the one below. `share` says how near it is to `upper`.
    upper = torch.searchsorted(centres, positions).clamp(1, len(centres) - 1)
    share = ((positions - centres[upper - 1]) / (centres[upper] - centres[upper - 1])).clamp(0, 1)
    weights = torch.zeros(*positions.shape, len(centres), device=mel.device)
    weights.scatter_(2, (upper - 1).unsqueeze(2), (1 - share).unsqueeze(2))
    weights.scatter_add_(2, upper.unsqueeze(2), share.unsqueeze(2))
    return mel @ weights.transpose(1, 2)


def _moved(centres: Tensor, factors: Tensor) -> Tensor:
    """Return where each frequency was before the voice changed, by factor [rows, 1]."""
    knee = KNEE_HZ * factors.clamp(max=1.0)
    above = (HIGHEST_HZ - knee / factors) / (HIGHEST_HZ - knee)
    return torch.where(centres < knee, centres / factors, HIGHEST_HZ - (HIGHEST_HZ - centres) * above)
