"""Lines that transmit only a band, and telephone lines, which also have 8 kHz and 8 bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from streamer.training.data.corpus import SAMPLE_RATE

MU = 255
LEVELS = 127


def narrowed(spectrum: Tensor, generator: torch.Generator) -> Tensor:
    """Return the spectra of rows with only a random band each: from at most 300 Hz to at least 3400 Hz."""
    lowest, highest = torch.rand(2, *spectrum.shape[:-1], 1, generator=generator).to(spectrum.device)
    return _band(spectrum, 300 * (lowest - 0.5).clamp(min=0) * 2, 3400 + 3600 * highest)


def telephoned(spectrum: Tensor) -> Tensor:
    """Return the spectra of rows after a telephone line: 300 to 3400 Hz, 8 kHz, 8-bit mu-law."""
    half = (spectrum.shape[-1] - 1) // 2
    # The lower half of a spectrum is that of the same row at half the rate.
    lowest, highest = torch.tensor([300.0, 3400.0], device=spectrum.device)
    line = torch.fft.irfft(_band(spectrum, lowest, highest)[..., : half + 1]) / 2
    received = torch.zeros_like(spectrum)
    received[..., : half + 1] = torch.fft.rfft(companded(line)) * 2
    return received


def companded(samples: Tensor) -> Tensor:
    """Return the audio after 8-bit mu-law, with 127 levels on each side of zero."""
    loudness = torch.log1p(MU * samples.abs().clamp(max=1)) / math.log(1 + MU)
    level = (loudness * LEVELS).round() / LEVELS
    return samples.sign() * ((1 + MU) ** level - 1) / MU


def _band(spectrum: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    hertz = torch.linspace(0, SAMPLE_RATE / 2, spectrum.shape[-1], device=spectrum.device)
    return spectrum * (torch.sigmoid((upper - hertz) / 60) * torch.sigmoid((hertz - lower) / 15))
