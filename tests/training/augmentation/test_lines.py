"""Lines transmit a band, and telephone lines have few levels."""

from __future__ import annotations

import math

import torch

from streamer.training.augmentation.lines import companded, narrowed, telephoned

RATE = 16000


def tone(hertz: float) -> torch.Tensor:
    """Return about a second of this tone, with a power of two as its length."""
    return 0.3 * torch.sin(2 * math.pi * hertz * torch.arange(16384) / RATE)


def level(samples: torch.Tensor) -> float:
    """Return the level of a tone, relative to the tone before the line."""
    return float(samples.square().mean().sqrt() / (0.3 / math.sqrt(2)))


def test_a_telephone_passes_speech_and_nothing_beyond() -> None:
    """Tones of 300 to 3400 Hz keep their level and place in time; 100 Hz and 5 kHz are gone."""
    passed = {hertz: torch.fft.irfft(telephoned(torch.fft.rfft(tone(hertz)))) for hertz in (100, 1000, 5000)}
    assert level(passed[100]) < 0.05
    assert level(passed[5000]) < 0.05
    assert 0.95 < level(passed[1000]) < 1.05
    error = passed[1000] - tone(1000)
    assert 0.002 < level(error) < 0.1  # the 8 bits


def test_a_line_passes_what_every_line_does() -> None:
    """A line always transmits 1 kHz, and never 7.5 kHz."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        assert level(torch.fft.irfft(narrowed(torch.fft.rfft(tone(1000)), generator))) > 0.95
        assert level(torch.fft.irfft(narrowed(torch.fft.rfft(tone(7500)), generator))) < 0.05


def test_companding_is_finer_for_what_is_quiet() -> None:
    """Silence and full scale stay, quiet audio has finer levels, and louder audio is clipped."""
    kept = companded(torch.tensor([0.0, 1.0, -1.0, 2.0]))
    torch.testing.assert_close(kept, torch.tensor([0.0, 1.0, -1.0, 1.0]))
    quiet, loud = torch.linspace(0, 0.01, 1000), torch.linspace(0.5, 1, 1000)
    assert (companded(quiet) - quiet).abs().max() < 0.1 * (companded(loud) - loud).abs().max()
