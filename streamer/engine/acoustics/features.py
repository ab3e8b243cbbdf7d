"""Causal log-mel features. Frame t sees the 25 ms of audio that end at sample (t + 1) * 160, and nothing later."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SAMPLE_RATE = 16000
HOP = 160
WINDOW = 400
CONTEXT = WINDOW - HOP
"""How many samples before the first hop its frame needs."""

FFT = 512
LOWEST_HZ = 20.0
HIGHEST_HZ = 7600.0
# An energy far below the noise of any recording. It is the least energy, because digital silence would otherwise be
# unlike everything in the training data.
FLOOR = 1e-6


class LogMel(nn.Module):
    """Computes log-mel energies, normalised by the mean and deviation of the training data."""

    window: Tensor
    filters: Tensor
    mean: Tensor
    deviation: Tensor

    def __init__(self, mels: int = 80) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW, periodic=False), persistent=False)
        self.register_buffer("filters", mel_filters(mels), persistent=False)
        self.register_buffer("mean", torch.zeros(mels))
        self.register_buffer("deviation", torch.ones(mels))

    def forward(self, samples: Tensor) -> Tensor:
        """Return the features [batch, hops, mels] of samples [batch, CONTEXT + hops * HOP]."""
        return self.normalise(self.energies(samples))

    def normalise(self, energies: Tensor) -> Tensor:
        """Return the normalised energies, which are the input of the encoder."""
        return (energies - self.mean) / self.deviation

    def energies(self, samples: Tensor) -> Tensor:
        """Return the logarithms of the mel energies, before normalisation."""
        frames = samples.unfold(-1, WINDOW, HOP) * self.window
        real, imaginary = torch.view_as_real(torch.fft.rfft(frames, n=FFT)).square().unbind(-1)
        return torch.log((real + imaginary) @ self.filters + FLOOR)


def mel_filters(mels: int) -> Tensor:
    """Return triangular filters [FFT / 2 + 1, mels], evenly spaced on the mel scale."""
    hertz = _mel_edges(mels)
    bins = torch.linspace(0, SAMPLE_RATE / 2, FFT // 2 + 1, dtype=torch.float64).unsqueeze(1)
    rising = (bins - hertz[:-2]) / (hertz[1:-1] - hertz[:-2])
    falling = (hertz[2:] - bins) / (hertz[2:] - hertz[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


def mel_centres(mels: int) -> Tensor:
    """Return the frequencies in the middle of these filters, in Hz."""
    return _mel_edges(mels)[1:-1]


def _mel_edges(mels: int) -> Tensor:
    edges = torch.linspace(_mel(LOWEST_HZ), _mel(HIGHEST_HZ), mels + 2, dtype=torch.float64)
    return 700.0 * (10.0 ** (edges / 2595.0) - 1.0)


def _mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)
