"""Augments whole batches on their device: rooms and lines, noise, gain, dither with exact zeros, voices, masks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from streamer.training.augmentation.conditions import Conditions
from streamer.training.augmentation.lines import narrowed, telephoned
from streamer.training.augmentation.masks import masked
from streamer.training.augmentation.rooms import recorded_rooms, synthetic_rooms
from streamer.training.augmentation.voices import with_other_voices
from streamer.training.data.corpus import Corpus

LEAST_BIT = 1 / 32768


class Augmentation:
    """Changes audio in the way that microphones, rooms and lines do. A generator decides all but the noise itself."""

    def __init__(
        self, noise: Corpus, rooms: Corpus, device: torch.device, conditions: Conditions | None = None
    ) -> None:
        self.conditions = conditions or Conditions()
        self._device = device
        self._noise = torch.from_numpy(np.array(noise.everything())).to(device)
        self._rooms = pad_sequence(recorded_rooms(rooms), batch_first=True).to(device)

    def audio(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """Return changed audio [rows, samples]."""
        rows = len(samples)
        colour, noise, dither, gate = torch.rand(4, rows, generator=generator)
        samples = samples.clone()
        room = self.conditions.room
        for change, chosen in (
            (self._in_rooms, colour < room),
            (self._through_lines, (colour >= room) & (colour < room + self.conditions.line)),
            (self._with_noise, noise < self.conditions.noise),
        ):
            numbers = chosen.nonzero().flatten().to(self._device)
            if len(numbers):
                samples[numbers] = change(samples[numbers], generator)
        samples *= self._gains(samples, generator)
        # A gate or a codec makes very quiet audio exact digital silence.
        gated = (gate < 0.1).to(self._device).unsqueeze(1)
        samples.masked_fill_(gated & (samples.abs() <= 0.002), 0.0)
        bits = torch.where((gate >= 0.1) & (dither < 0.8), 4 * dither, 0.0).to(self._device).unsqueeze(1)
        return samples.addcmul_(torch.randn_like(samples), LEAST_BIT * bits).clamp_(-1, 1)

    def mel(self, mel: Tensor, lengths: Tensor, generator: torch.Generator) -> Tensor:
        """Return features [rows, frames, mels], some of them of other voices, with some bands and stretches masked."""
        if self.conditions.voices:
            chosen, drawn = torch.rand(2, len(mel), generator=generator)
            widest = self.conditions.widest_voice * (chosen < self.conditions.voices)
            mel = with_other_voices(mel, (1 + widest * (2 * drawn - 1)).to(self._device))
        return masked(mel, lengths, self.conditions, generator)

    def _in_rooms(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return these rows in recorded and synthetic rooms."""
        is_synthetic = torch.rand(len(rows), generator=generator) < self.conditions.synthetic_rooms
        chosen = torch.randint(len(self._rooms), (len(rows),), generator=generator)
        synthetic = synthetic_rooms(len(rows), generator, self._device)
        recorded = functional.pad(self._rooms[chosen.to(self._device)], (0, synthetic.shape[1] - self._rooms.shape[1]))
        responses = torch.where(is_synthetic.to(self._device).unsqueeze(1), synthetic, recorded)
        # Without this padding, the last echo would wrap around to the beginning.
        size = _fast_length(rows.shape[1] + responses.shape[1])
        spectra = torch.fft.rfft(rows, n=size) * torch.fft.rfft(responses, n=size)
        return torch.fft.irfft(spectra, n=size)[:, : rows.shape[1]]

    def _through_lines(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return these rows through telephones, and lines that transmit only a band."""
        size = _fast_length(rows.shape[1])
        spectra = torch.fft.rfft(rows, n=size)
        telephone = torch.rand(len(rows), 1, generator=generator) < self.conditions.telephones
        spectra = torch.where(telephone.to(self._device), telephoned(spectra), narrowed(spectra, generator))
        return torch.fft.irfft(spectra, n=size)[:, : rows.shape[1]]

    def _with_noise(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return these rows with recorded or white noise, 5 to 30 dB below the loud parts of each."""
        number, length = rows.shape
        choice, decibels, start = torch.rand(3, number, 1, generator=generator).to(self._device)
        places = (start * max(len(self._noise) - length, 0)).long() + torch.arange(length, device=self._device)
        recorded = self._noise[places.clamp(max=len(self._noise) - 1)].float()
        recorded *= places < len(self._noise)
        noise = torch.where(choice < 0.2, torch.randn_like(rows), recorded)
        ratio = 10 ** (-(5 + 25 * decibels) / 20)
        return rows + noise * (_loudness(rows) * ratio / _loudness(noise).clamp(min=1e-6))

    def _gains(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Return factors that put the peaks between -26 and 0 dB of full scale, or in one row of ten down to -56 dB."""
        drawn = torch.rand(len(rows), 1, generator=generator)
        decibels = torch.where(drawn < 0.9, -26 * drawn / 0.9, -26 - 300 * (drawn - 0.9))
        return (10 ** (decibels / 20)).to(self._device) / rows.abs().amax(1, keepdim=True).clamp(min=1e-3)


def _fast_length(samples: int) -> int:
    """Return a length of at least this many samples whose Fourier transform is fast."""
    return 1 << (samples - 1).bit_length()


def _loudness(rows: Tensor) -> Tensor:
    return rows.square().mean(1, keepdim=True).sqrt()
