"""Samples at 8 kHz, as models for telephones hear them, from samples at 16 kHz.

A window gives the same numbers in any company and in any division of the audio: the filter has whole numbers as
weights, so its sums are exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.fbank import SAMPLE_RATE
from streamer.graphs.layout import FRAME_LEAD

_CUTOFF: Final = 3_830  # Hz: half of the amplitude passes here. A tenth less passes whole, a tenth more not at all.
_SHAPE: Final = 8.0  # of the Kaiser window: what is to be left out is 80 dB quieter
_ONE: Final = 1 << 15  # what the weights are multiplied with
_LOUDEST: Final = 32_767


def _filter() -> NDArray[np.float64]:
    """The weights of a low-pass filter that reads a lead of samples on each side."""
    at = np.arange(-FRAME_LEAD, FRAME_LEAD + 1)
    width = 2 * _CUTOFF / SAMPLE_RATE
    return np.round(_ONE * width * np.sinc(width * at) * np.kaiser(len(at), _SHAPE)).astype(np.float64)


_EVEN: Final = _filter()[::2].copy()
_ODD: Final = _filter()[1::2].copy()


def halved(window: NDArray[np.int16]) -> NDArray[np.int16]:
    """Every second sample of this window, after the filter; without the lead at its beginning and at its end."""
    samples = window.astype(np.float64)
    length = (len(window) - 2 * FRAME_LEAD) // 2
    even = np.correlate(samples[::2], _EVEN, "valid")[:length]
    odd = np.correlate(samples[1::2], _ODD, "valid")[:length]
    rounded = np.floor((even + odd) / _ONE + 0.5)
    return rounded.clip(-_LOUDEST - 1, _LOUDEST).astype(np.int16)


class TelephoneSamples:
    """What a graph hears of many windows at once."""

    def __call__(self, windows: NDArray[np.int16]) -> NDArray[np.int32]:
        """The samples of these windows: [windows, samples, 1]."""
        shorter = np.stack([halved(window) for window in windows])
        # sherpa-onnx makes numbers up to 1 of the samples, and whole numbers of these again, without rounding.
        heard = shorter.astype(np.float32) / 32768 * np.float32(_LOUDEST)
        return heard.astype(np.int32)[..., None]
