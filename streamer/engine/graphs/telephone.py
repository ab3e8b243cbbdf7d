"""Samples at 8 kHz for telephone models, from samples at 16 kHz.

The numbers of a window do not depend on the other windows or on the division of the audio: the filter has whole numbers
as weights, so its sums are exact.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.engine.graphs.fbank import SAMPLE_RATE
from streamer.graphs.layout import FRAME_LEAD

# Hz: half of the amplitude passes at this frequency, all of it a tenth lower, and nothing a tenth higher.
_CUTOFF: Final = 3_830
_SHAPE: Final = 8.0  # of the Kaiser window: frequencies that must not pass are 80 dB quieter
_SCALE: Final = 1 << 15  # the factor that makes whole numbers of the weights
_LOUDEST: Final = 32_767


def _filter() -> NDArray[np.float64]:
    """Return the weights of a low-pass filter that reads a lead of samples on each side."""
    at = np.arange(-FRAME_LEAD, FRAME_LEAD + 1)
    width = 2 * _CUTOFF / SAMPLE_RATE
    return np.round(_SCALE * width * np.sinc(width * at) * np.kaiser(len(at), _SHAPE)).astype(np.float64)


_EVEN: Final = _filter()[::2].copy()
_ODD: Final = _filter()[1::2].copy()


def halved(window: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return every second sample of this window after the filter, without the lead at its beginning and its end."""
    samples = window.astype(np.float64)
    length = (len(window) - 2 * FRAME_LEAD) // 2
    even = np.correlate(samples[::2], _EVEN, "valid")[:length]
    odd = np.correlate(samples[1::2], _ODD, "valid")[:length]
    rounded = np.floor((even + odd) / _SCALE + 0.5)
    return rounded.clip(-_LOUDEST - 1, _LOUDEST).astype(np.int16)


class TelephoneSamples:
    """Makes the input of a graph from many windows at once."""

    def __call__(self, windows: NDArray[np.int16]) -> NDArray[np.int32]:
        """Return the samples of these windows: [windows, samples, 1]."""
        shorter = np.stack([halved(window) for window in windows])
        # sherpa-onnx converts the samples to numbers up to 1, and these back to whole numbers, without rounding.
        scaled = shorter.astype(np.float32) / 32768 * np.float32(_LOUDEST)
        return scaled.astype(np.int32)[..., None]
