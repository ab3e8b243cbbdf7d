"""Other voices: a longer or shorter vocal tract moves all resonances of a voice by one factor, at the same tempo."""

from __future__ import annotations

import torch
from torch import Tensor

from streamer.engine.models.features import HIGHEST_HZ, mel_centres

KNEE_HZ = 4800.0
"""Above it, the frequencies of speech are moved less and less, so that none leaves the band."""


def with_other_voices(mel: Tensor, factors: Tensor) -> Tensor:
    """Return features [rows, hops, mels] as of speakers whose resonances are higher by these factors, one a row."""
    centres = mel_centres(mel.shape[2]).float().to(mel.device)
    found = _moved(centres, factors.unsqueeze(1)).contiguous()
    # Between which two features a moved one lies, and how near to the upper one.
    upper = torch.searchsorted(centres, found).clamp(1, len(centres) - 1)
    share = ((found - centres[upper - 1]) / (centres[upper] - centres[upper - 1])).clamp(0, 1)
    weights = torch.zeros(*found.shape, len(centres), device=mel.device)
    weights.scatter_(2, (upper - 1).unsqueeze(2), (1 - share).unsqueeze(2))
    weights.scatter_add_(2, upper.unsqueeze(2), share.unsqueeze(2))
    return mel @ weights.transpose(1, 2)


def _moved(centres: Tensor, factors: Tensor) -> Tensor:
    """Return where each frequency was before the voice changed, by factor [rows, 1]."""
    knee = KNEE_HZ * factors.clamp(max=1.0)
    above = (HIGHEST_HZ - knee / factors) / (HIGHEST_HZ - knee)
    return torch.where(centres < knee, centres / factors, HIGHEST_HZ - (HIGHEST_HZ - centres) * above)
