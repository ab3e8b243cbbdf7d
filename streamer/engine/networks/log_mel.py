"""The features in torch, as training and a GPU compute them. `acoustics/features.py` computes the same in numpy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from streamer.engine.acoustics.features import FFT, FLOOR, HOP, WINDOW, hann_window, mel_filters


class LogMelNetwork(nn.Module):
    """Computes log-mel energies, normalised by the mean and deviation of the training data."""

    window: Tensor
    filters: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, mels: int = 80, hop: int = HOP) -> None:
        super().__init__()
        self.hop, self.context = hop, WINDOW - hop
        self.register_buffer("window", torch.from_numpy(hann_window()), persistent=False)
        self.register_buffer("filters", torch.from_numpy(mel_filters(mels)), persistent=False)
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("deviation", torch.ones(mels))

    def forward(self, samples: Tensor) -> Tensor:
        """Return the features [batch, hops, mels] of samples [batch, context + hops * hop]."""
        return self.normalise(self.energies(samples))

    def normalise(self, energies: Tensor) -> Tensor:
        """Return the normalised energies, which are the input of the encoder."""
        return (energies - self.mean) / self.deviation

    def energies(self, samples: Tensor) -> Tensor:
        """Return the logarithms of the mel energies, before normalisation."""
        frames = samples.unfold(-1, WINDOW, self.hop) * self.window
        real, imaginary = torch.view_as_real(torch.fft.rfft(frames, n=FFT)).square().unbind(-1)
        return torch.log((real + imaginary) @ self.filters + FLOOR)
