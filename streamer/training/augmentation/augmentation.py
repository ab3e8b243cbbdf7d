"""Augments whole batches on their device: rooms and lines, noise, gain, dither with exact zeros, voices, masks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from streamer.training.augmentation.conditions import Conditions
from streamer.training.augmentation.lines import narrowed, telephoned
from streamer.training.augmentation.masks import masked
from streamer.training.augmentation.rooms import recorded_rooms, synthetic_room
from streamer.training.augmentation.voices import with_other_voices
from streamer.training.data.corpus import SAMPLE_RATE, Corpus

LEAST_BIT = 1 / 32768


class Augmentation:
    """Changes audio in the way that microphones, rooms and lines do. The generator decides everything."""

    def __init__(
        self, noise: Corpus, rooms: Corpus, device: torch.device, conditions: Conditions | None = None
    ) -> None:
        self._conditions = conditions or Conditions()
        self._noise = torch.from_numpy(np.array(noise.everything())).to(device)
        self._rooms = [room.to(device) for room in recorded_rooms(rooms)]

    def audio(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """Return changed audio [rows, samples]."""
        rows, length = samples.shape
        chances = torch.rand(rows, 4, generator=generator).tolist()
        samples = samples.clone()
        for row, (colour, noise, dither, gate) in enumerate(chances):
            if colour < self._conditions.room + self._conditions.line:
                samples[row] = self._coloured(samples[row], colour < self._conditions.room, generator)
            if noise < self._conditions.noise:
                samples[row] += self._background(samples[row], generator)
            samples[row] *= self._gain(samples[row], generator)
            if gate < 0.1:
                # A gate or a codec makes very quiet audio exact digital silence.
                samples[row] *= samples[row].abs() > 0.002
            elif dither < 0.8:
                samples[row] += LEAST_BIT * 4 * dither * torch.randn(length, device=samples.device)
        return samples.clamp_(-1, 1)

    def mel(self, mel: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
        """Return features [rows, frames, mels], some of them of other voices, with some bands and stretches masked."""
        if self._conditions.voices:
            chosen, drawn = torch.rand(2, len(mel), generator=generator)
            widest = self._conditions.widest_voice * (chosen < self._conditions.voices)
            mel = with_other_voices(mel, 1 + widest * (2 * drawn - 1))
        return masked(mel, lengths, self._conditions, generator)

    def _coloured(self, row: Tensor, room: bool, generator: torch.Generator) -> Tensor:
        """Return a row as in a room, or through a line that transmits only a band."""
        # Without this padding, the last echo would wrap around to the beginning.
        size = 1 << (len(row) + (SAMPLE_RATE if room else 0) - 1).bit_length()
        spectrum = torch.fft.rfft(row, n=size)
        choice = float(torch.rand((), generator=generator))
        if room:
            made_up = choice < self._conditions.synthetic_rooms
            response = synthetic_room(generator).to(row.device) if made_up else self._recorded(generator)
            spectrum = spectrum * torch.fft.rfft(response, n=size)
        elif choice < self._conditions.telephones:
            spectrum = telephoned(spectrum)
        else:
            spectrum = narrowed(spectrum, generator)
        return torch.fft.irfft(spectrum, n=size)[: len(row)]

    def _recorded(self, generator: torch.Generator) -> Tensor:
        return self._rooms[int(torch.randint(len(self._rooms), (), generator=generator))]

    def _background(self, row: Tensor, generator: torch.Generator) -> Tensor:
        """Return recorded or white noise, 5 to 30 dB below the loud parts of each row."""
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
        """Return factors that put the peak between -26 and 0 dB of full scale, or in one row of ten down to -56 dB."""
        drawn = float(torch.rand((), generator=generator))
        decibels = -26 * drawn / 0.9 if drawn < 0.9 else -26 - 300 * (drawn - 0.9)
        return 10 ** (decibels / 20) / row.abs().max().clamp(min=1e-3)
