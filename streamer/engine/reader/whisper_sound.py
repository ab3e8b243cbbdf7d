"""The spectrum that Whisper hears: the logarithm of mel bands, 100 times a second."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

RATE: Final = 16_000
HOP: Final = 160  # samples between frames
_WINDOW: Final = 400
_RANGE: Final = 8.0  # powers of ten below the loudest band that are told apart
_LEAST: Final = 1e-10
# Slaney's scale of mel: linear up to 1000 Hz, logarithmic above.
_LINEAR_HZ: Final = 200 / 3
_BREAK_HZ: Final = 1000.0
_BREAK: Final = _BREAK_HZ / _LINEAR_HZ
_STEP: Final = np.log(6.4) / 27

Floats = NDArray[np.float32]


def spectrum(samples: Floats, bands: int) -> Floats:
    """Return the spectrum [bands, frames] of sound between -1 and 1 at 16 kHz, in the bits of faster-whisper.

    With weights in int8, the last bit of a number may decide a word.
    """
    padded = np.pad(np.pad(samples, (0, HOP)), _WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][: len(samples) // HOP + 1]
    window = np.hanning(_WINDOW + 1)[:-1].astype(np.float32)
    power = np.abs(np.fft.rfft(windows * window).T.astype(np.complex64)) ** 2
    logarithms = np.log10(np.maximum(_mel(bands) @ power, np.float32(_LEAST)))
    logarithms = np.maximum(logarithms, logarithms.max() - np.float32(_RANGE))
    return np.ascontiguousarray((logarithms + np.float32(4)) / np.float32(4))[:, : max(1, len(samples) // HOP)]


@cache
def _mel(bands: int) -> Floats:
    """Return the weights [bands, frequencies] of triangles of equal area."""
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / RATE)
    corners = _hertz(np.linspace(0, _mels(RATE / 2), bands + 2))
    rising = (frequencies - corners[:-2, None]) / np.diff(corners)[:-1, None]
    falling = (corners[2:, None] - frequencies) / np.diff(corners)[1:, None]
    weights = np.maximum(0, np.minimum(rising, falling)) * (2 / (corners[2:] - corners[:-2]))[:, None]
    return weights.astype(np.float32)


def _mels(hertz: float) -> float:
    return float(_BREAK + np.log(hertz / _BREAK_HZ) / _STEP)


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mels < _BREAK, mels * _LINEAR_HZ, _BREAK_HZ * np.exp(_STEP * (mels - _BREAK)))
