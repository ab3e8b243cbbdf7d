"""Augments whole batches on their device: rooms and lines, noise, gain, dither with exact zeros, voices, masks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from streamer.engine.acoustics.features import HIGHEST_HZ, mel_centres, mel_edges
from streamer.engine.networks.encoder import ConvolutionModule, FeedForward, SelfAttention
from workshop.data.corpus import SAMPLE_RATE, Corpus, CorpusError
from workshop.data.degradation import LIVEABLE_SECONDS, liveable_responses

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

    def without_bands(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """Return audio [rows, samples] without the bands that `mel` would mask. Voices stay as they are."""
        size = _fast_length(samples.shape[1])
        spectra = torch.fft.rfft(samples, n=size)
        hertz = torch.linspace(0, SAMPLE_RATE / 2, spectra.shape[1], device=samples.device)
        keep = torch.ones(spectra.shape, dtype=torch.bool, device=samples.device)
        edges = mel_edges(MELS)
        for _ in range(self.conditions.bands):
            width = torch.rand(len(samples), generator=generator) * self.conditions.widest_band
            start = torch.rand(len(samples), generator=generator) * (MELS - width)
            first, last = (
                torch.from_numpy(np.interp(each.numpy(), np.arange(len(edges)), edges)).float()
                for each in (start, start + width)
            )
            keep &= ~_between(hertz, first, last)
        return torch.fft.irfft(spectra * keep, n=size)[:, : samples.shape[1]]

    def kept(self, lengths: Tensor, frames: int, frame_ms: float, generator: torch.Generator) -> Tensor:
        """Return 0 for the frames of some stretches and 1 for all others, [rows, frames]. `lengths` are in frames."""
        return (~_stretches(lengths, frames, frame_ms / HOP_MS, self.conditions, generator)).float()

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


# How often and how strongly speech is changed in training.


@dataclass(frozen=True)
class Conditions:
    """The chance of each change for a row, and the sizes of the masks in its features."""

    room: float = 0.08
    line: float = 0.12
    noise: float = 0.35
    synthetic_rooms: float = 0.0  # the share of synthetic rooms, because there are few recordings
    telephones: float = 0.0  # the share of telephone lines: 8 kHz and 8 bits
    voices: float = 0.0  # the chance of another length of the vocal tract
    widest_voice: float = 0.12  # the most by which it is longer or shorter
    bands: int = 2
    widest_band: int = 12  # mels
    stretches: int = 2
    longest_share: float = 0.1  # the longest masked stretch, as a share of the row
    longest_stretch: int = 32  # features of 10 ms


CONDITIONS = {
    "usual": Conditions(),
    "hard": Conditions(
        room=0.2,
        line=0.16,
        noise=0.45,
        synthetic_rooms=0.7,
        telephones=0.5,
        widest_band=18,
        stretches=4,
        longest_share=0.08,
        longest_stretch=48,
    ),
    "varied": Conditions(
        room=0.4,
        line=0.12,
        noise=0.4,
        synthetic_rooms=0.5,
        telephones=0.4,
        voices=0.6,
        widest_band=18,
        stretches=4,
        longest_share=0.08,
        longest_stretch=48,
    ),
}


def add_dropout(encoder: nn.Module, share: float) -> None:
    """Leave out this share of the numbers while the encoder is in training mode."""
    for module in encoder.modules():
        if isinstance(module, FeedForward | SelfAttention | ConvolutionModule):
            module.register_forward_hook(partial(_dropped, share))


def _dropped(share: float, module: nn.Module, _: object, output: Tensor) -> Tensor:
    return functional.dropout(output, share, module.training)


# Lines that transmit only a band, and telephone lines, which also have 8 kHz and 8 bits.

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


# SpecAugment: hides bands and stretches of the features, so that the model does not rely on single clues.

HOPS_A_FRAME = 4
HOP_MS = 10
MELS = 80


def masked(mel: Tensor, lengths: Tensor, conditions: Conditions, generator: torch.Generator) -> Tensor:
    """Return features [rows, hops, mels] in which some bands and stretches have their mean. `lengths` are in frames."""
    rows, hops, mels = mel.shape
    keep = torch.ones(rows, hops, mels, dtype=torch.bool, device=mel.device)
    bands = torch.arange(mels, device=mel.device)
    for _ in range(conditions.bands):
        width = torch.rand(rows, generator=generator) * conditions.widest_band
        start = torch.rand(rows, generator=generator) * (mels - width)
        keep &= ~_between(bands, start, start + width).unsqueeze(1)
    keep &= ~_stretches(lengths * HOPS_A_FRAME, hops, 1.0, conditions, generator).unsqueeze(2)
    return mel * keep


def _stretches(
    lengths: Tensor, longest: int, hops: float, conditions: Conditions, generator: torch.Generator
) -> Tensor:
    """Return which of `longest` frames of each row lie in a masked stretch. A frame has this many `hops`."""
    times, spans = torch.arange(longest, device=lengths.device), lengths.cpu()
    widest = (spans * conditions.longest_share).clamp(max=conditions.longest_stretch / hops)
    masked = torch.zeros(len(lengths), longest, dtype=torch.bool, device=lengths.device)
    for _ in range(conditions.stretches):
        width = torch.rand(len(lengths), generator=generator) * widest
        start = torch.rand(len(lengths), generator=generator) * (spans - width)
        masked |= _between(times, start, start + width)
    return masked


def _between(positions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    device = positions.device
    return (positions >= start.to(device).unsqueeze(1)) & (positions < end.to(device).unsqueeze(1))


# Impulse responses of rooms: recorded ones, and synthetic ones of noise that decays after the direct sound.

SHORTEST_S, LONGEST_S = 0.15, 1.2
"""The times in which the sound of a synthetic room falls by 60 dB."""

FARTHEST_DB, NEAREST_DB = -10.0, 10.0
"""How much louder the direct sound is than all that follows."""

SILENT_S = 0.002
"""The delay between the direct sound and the first echo."""


def recorded_rooms(rooms: Corpus) -> list[Tensor]:
    """Return the first second of recorded responses, each of energy 1."""
    responses = liveable_responses(rooms)
    if not responses:
        raise CorpusError(f"all responses in rooms ring for {LIVEABLE_SECONDS} seconds or longer")
    return [_unit_energy(torch.from_numpy(response[:SAMPLE_RATE]).float()) for response in responses]


def synthetic_rooms(number: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Make synthetic responses [number, samples] of energy 1. High tones decay faster, because walls absorb them more.

    The generator decides about the rooms, but not about their noise.
    """
    ringing, nearness, darkness = torch.rand(3, number, 1, generator=generator).to(device)
    seconds = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** ringing
    times = torch.arange(int(LONGEST_S * SAMPLE_RATE), device=device) / SAMPLE_RATE
    noise = torch.randn(number, len(times), device=device) * (times < seconds)
    low = functional.avg_pool1d(noise.unsqueeze(1), 7, 1, 3).squeeze(1)
    tails = low * _decay(times, seconds) + (noise - low) * _decay(times, seconds * (1 - 0.7 * darkness))
    tails[:, : int(SILENT_S * SAMPLE_RATE)] = 0
    direct = FARTHEST_DB + (NEAREST_DB - FARTHEST_DB) * nearness
    responses = _unit_energy(tails) * 10 ** (-direct / 20)
    responses[:, 0] = 1.0
    return _unit_energy(responses)


def _decay(times: Tensor, seconds: Tensor) -> Tensor:
    return 10 ** (-3 * times / seconds)


def _unit_energy(response: Tensor) -> Tensor:
    return response / response.square().sum(-1, keepdim=True).sqrt()


# Other voices: a longer or shorter vocal tract moves all resonances of a voice by one factor, at the same tempo.

KNEE_HZ = 4800.0
"""Above it, the frequencies of speech are moved less and less, so that none leaves the band."""


def with_other_voices(mel: Tensor, factors: Tensor) -> Tensor:
    """Return features [rows, hops, mels] of voices whose resonances are higher by these factors, one for each row."""
    centres = torch.from_numpy(mel_centres(mel.shape[2])).float().to(mel.device)
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
