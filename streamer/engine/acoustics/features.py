"""Causal log-mel features. Frame t sees the 25 ms of audio that end with its own samples, and nothing later."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE: Final = 16000
HOP: Final = 160
"""The samples from one frame to the next, unless an encoder has other frames."""
WINDOW: Final = 400
CONTEXT: Final = WINDOW - HOP
"""How many samples before the first of these hops its frame needs."""

FFT: Final = 512
LOWEST_HZ: Final = 20.0
HIGHEST_HZ: Final = 7600.0
# An energy far below the noise of any recording. It is the least energy, because digital silence would otherwise be
# unlike everything in the training data.
FLOOR: Final = 1e-6
_BLOCK: Final = 128  # the frames that are computed together, so that their spectra stay in the cache

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


def samples_of(audio: NDArray[np.int16]) -> Floats:
    """Return audio as samples in [-1, 1)."""
    return audio.astype(np.float32) / np.float32(32768)


class LogMel:
    """Computes log-mel energies, normalised by the mean and deviation of the training data.

    It computes the spectrum of each frame by itself, so the bits of a frame do not depend on the others. It does so in
    double precision, because the rounding of numbers in 32 bits depends on the version of numpy.
    """

    def __init__(self, mean: Floats, deviation: Floats, hop: int = HOP) -> None:
        self.mels = len(mean)
        self.hop, self.context = hop, WINDOW - hop
        self._mean, self._deviation = mean.astype(np.float32), deviation.astype(np.float32)
        self._window = hann_window()
        edges = np.searchsorted(_BINS, mel_edges(self.mels))
        self._begins, self._gaps = edges[:-1], edges[:-1] == edges[1:]
        self._rising, self._falling = _slopes(self.mels)

    @classmethod
    def plain(cls, mels: int = 80) -> LogMel:
        """Return features without normalisation."""
        return cls(np.zeros(mels, np.float32), np.ones(mels, np.float32))

    def normalise(self, energies: Floats) -> Floats:
        """Return the normalised energies, which are the input of the encoder."""
        return (energies - self._mean) / self._deviation

    def energies(self, samples: Floats) -> Floats:
        """Return the logarithms of the mel energies [batch, hops, mels] of samples [batch, context + hops * hop]."""
        frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW, axis=-1)[:, :: self.hop]
        rows = frames.reshape(-1, WINDOW)
        energies = np.empty((len(rows), self.mels), np.float32)
        for first in range(0, len(rows), _BLOCK):
            energies[first : first + _BLOCK] = self._block(rows[first : first + _BLOCK])
        return energies.reshape(*frames.shape[:2], self.mels)

    def _block(self, frames: Floats) -> Doubles:
        windowed = frames * self._window  # in 32 bits, as torch does
        spectra = np.fft.rfft(windowed.astype(np.float64), n=FFT)
        powers = np.square(spectra.real) + np.square(spectra.imag)
        # Each filter rises between its first two edges and falls between its last two. Between two edges there may be
        # no bin: then `reduceat` gives the next one, which does not belong there.
        rising, falling = (
            np.where(self._gaps, 0, np.add.reduceat(powers * slope, self._begins, axis=1))
            for slope in (self._rising, self._falling)
        )
        energies: Doubles = np.log(rising[:, :-1] + falling[:, 1:] + FLOOR)
        return energies


# These cosines of torch are not the nearest numbers in 32 bits, but the next ones.
_HIGHER: Final = (19, 68, 150, 155, 158, 202, 235, 329, 337)
_LOWER: Final = (121, 122, 178, 185, 267, 273, 358)


def hann_window() -> Floats:
    """Return the window with the bits that torch computed when the shipped model was trained.

    One bit of a few numbers is enough to change a confidence by 0.001 in one of ten thousand events.
    """
    angles = np.arange(WINDOW, dtype=np.float32) * np.float32(2 * np.pi / (WINDOW - 1))
    cosines = np.cos(angles.astype(np.float64)).astype(np.float32)
    for places, limit in ((_HIGHER, 2), (_LOWER, -2)):
        cosines[list(places)] = np.nextafter(cosines[list(places)], np.float32(limit))
    window: Floats = np.float32(0.5) - np.float32(0.5) * cosines
    return window


# Triangular filters, evenly spaced on the mel scale.

_BINS: Final = np.linspace(0, SAMPLE_RATE / 2, FFT // 2 + 1)


def mel_filters(mels: int) -> Floats:
    """Return the filters as a matrix [FFT / 2 + 1, mels]."""
    edges, (rising, falling) = mel_edges(mels), _slopes(mels)
    filters = np.zeros((len(_BINS), mels + 2))
    between = np.searchsorted(edges, _BINS, side="right") - 1  # the number of the last edge before each bin
    inside = (between >= 0) & (between <= mels)
    places = np.nonzero(inside)[0]
    filters[places, between[inside] + 1] = rising[inside]
    filters[places, between[inside]] += falling[inside]
    return filters[:, 1:-1].astype(np.float32)


def mel_centres(mels: int) -> Doubles:
    """Return the frequencies in the middle of these filters, in Hz."""
    return mel_edges(mels)[1:-1]


def _slopes(mels: int) -> tuple[Doubles, Doubles]:
    """Return for each bin the weight in the filter that rises there, and in the one that falls; 0 if there is none."""
    edges = mel_edges(mels)
    between = np.searchsorted(edges, _BINS, side="right") - 1
    inside = (between >= 0) & (between <= mels)
    place = np.clip(between, 0, mels)
    rising = np.where(inside, (_BINS - edges[place]) / np.diff(edges)[place], 0.0)
    return rising, np.where(inside, 1.0 - rising, 0.0)


def mel_edges(mels: int) -> Doubles:
    """Return the edges of these filters in Hz, two more than there are filters."""
    edges = np.linspace(_mel(LOWEST_HZ), _mel(HIGHEST_HZ), mels + 2)
    hertz: Doubles = 700.0 * (10.0 ** (edges / 2595.0) - 1.0)
    return hertz


def _mel(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)
