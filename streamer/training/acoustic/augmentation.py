"""Augmentation of whole batches where they lie: rooms and bands, noise, gain, dither with exact zeros, SpecAugment."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from streamer.training.data.corpus import SAMPLE_RATE, Corpus

LEAST_BIT = 1 / 32768


class Augmentation:
    """Changes audio as microphones, rooms and lines do. Every decision comes from the generator."""

    def __init__(self, noise: Corpus, rooms: Corpus, device: torch.device) -> None:
        self._noise = torch.from_numpy(np.array(noise.everything())).to(device)
        responses = [torch.from_numpy(np.array(rooms.samples(room))).float() for room in rooms.utterances]
        self._rooms = [_unit_energy(response.to(device)) for response in responses]

    def audio(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """Changed audio [rows, samples]."""
        rows, length = samples.shape
        chances = torch.rand(rows, 4, generator=generator).tolist()
        samples = samples.clone()
        for row, (colour, noise, dither, gate) in enumerate(chances):
            if colour < 0.2:
                samples[row] = self._coloured(samples[row], colour < 0.08, generator)
            if noise < 0.35:
                samples[row] += self._background(samples[row], generator)
            samples[row] *= self._gain(samples[row], generator)
            if gate < 0.1:
                # A gate or a codec: what is very quiet becomes exact digital silence.
                samples[row] *= samples[row].abs() > 0.002
            elif dither < 0.8:
                samples[row] += LEAST_BIT * 4 * dither * torch.randn(length, device=samples.device)
        return samples.clamp_(-1, 1)

    def mel(self, mel: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
        """Features [rows, frames, mels] with some bands and stretches masked."""
        rows, frames, mels = mel.shape
        keep = torch.ones(rows, frames, mels, dtype=torch.bool, device=mel.device)
        bands, times = torch.arange(mels, device=mel.device), torch.arange(frames, device=mel.device)
        spans = (lengths * 4).cpu()
        for _ in range(2):
            width = torch.rand(rows, generator=generator) * 12
            start = torch.rand(rows, generator=generator) * (mels - width)
            keep &= ~_between(bands, start, start + width).unsqueeze(1)
        for _ in range(2):
            width = torch.rand(rows, generator=generator) * (spans * 0.1).clamp(max=32)
            start = torch.rand(rows, generator=generator) * (spans - width)
            keep &= ~_between(times, start, start + width).unsqueeze(2)
        return mel * keep

    def _coloured(self, row: Tensor, room: bool, generator: torch.Generator) -> Tensor:
        """In a room, or through a line that lets only a band through."""
        size = 1 << (len(row) - 1).bit_length()
        spectrum = torch.fft.rfft(row, n=size)
        if room:
            response = self._rooms[int(torch.randint(len(self._rooms), (), generator=generator))]
            spectrum = spectrum * torch.fft.rfft(response, n=size)
        else:
            lowest, highest = torch.rand(2, generator=generator).tolist()
            hertz = torch.linspace(0, SAMPLE_RATE / 2, len(spectrum), device=row.device)
            lower, upper = 300 * max(lowest - 0.5, 0) * 2, 3400 + 3600 * highest
            slope = torch.sigmoid((upper - hertz) / 60) * torch.sigmoid((hertz - lower) / 15)
            spectrum = spectrum * slope
        return torch.fft.irfft(spectrum, n=size)[: len(row)]

    def _background(self, row: Tensor, generator: torch.Generator) -> Tensor:
        """Recorded or white noise, 5 to 30 dB below the row's loud parts."""
        choice, decibels = torch.rand(2, generator=generator).tolist()
        if choice < 0.2:
            noise = torch.randn(len(row), device=row.device)
        else:
            start = int(torch.randint(max(len(self._noise) - len(row), 1), (), generator=generator))
            noise = self._noise[start : start + len(row)].float()
            noise = torch.nn.functional.pad(noise, (0, len(row) - len(noise)))
        speech = row.square().mean().sqrt()
        ratio = 10 ** (-(5 + 25 * decibels) / 20)
        return noise * (speech * ratio / noise.square().mean().sqrt().clamp(min=1e-6))

    def _gain(self, row: Tensor, generator: torch.Generator) -> Tensor:
        """A factor that puts the peak between -26 and 0 dB of full scale; in one row of ten down to -56 dB."""
        drawn = float(torch.rand((), generator=generator))
        decibels = -26 * drawn / 0.9 if drawn < 0.9 else -26 - 300 * (drawn - 0.9)
        return 10 ** (decibels / 20) / row.abs().max().clamp(min=1e-3)


def _between(positions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    device = positions.device
    return (positions >= start.to(device).unsqueeze(1)) & (positions < end.to(device).unsqueeze(1))


def _unit_energy(response: Tensor) -> Tensor:
    # Starting at the direct sound, or every label would come too early.
    direct = int(response.abs().argmax())
    response = response[direct : direct + SAMPLE_RATE]
    return response / response.square().sum().sqrt()
