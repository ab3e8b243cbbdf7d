"""Converts samples of any rate and number of channels to int16 at 16 kHz, chunk by chunk.

All arithmetic is in float32, with one rounding at the end. How the audio is divided into chunks changes no sample.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr  # type: ignore[import-untyped]

Int16Samples = npt.NDArray[np.int16]
FloatSamples = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 16_000

# Full scale is 1. Much louder samples are nonsense, and a NaN or infinity would stay in the filter.
_LOUDEST: Final = np.float32(16.0)


class SampleConverter:
    """Floats [frames, channels] in, int16 [frames, streams] out: a stream for each channel, or one for the mix."""

    def __init__(self, sample_rate: int, channels: int, *, separate: bool = False) -> None:
        self.channels = channels
        self.streams = channels if separate else 1
        self._mixes = self.streams < channels
        self._resampler: Any = None
        if sample_rate != SAMPLE_RATE:
            # The variable-rate kind, although our rate is constant: it works sample by sample and holds back only
            # 240 samples (30 ms at 8 kHz, 14 ms at 48 kHz). The other kind holds back up to 115 ms.
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, self.streams, dtype="float32", vr=True)

    def convert(self, samples: FloatSamples, *, last: bool = False) -> Int16Samples:
        """Convert the next samples. After the `last` ones nothing is held back."""
        samples = np.clip(np.nan_to_num(samples), -_LOUDEST, _LOUDEST)
        if self._mixes:
            samples = samples.mean(axis=1, dtype=np.float32, keepdims=True)
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(np.ascontiguousarray(samples), last=last)
        return _round(samples)


def _round(samples: FloatSamples) -> Int16Samples:
    scaled = np.rint(samples * np.float32(32768.0))
    rounded: Int16Samples = np.clip(scaled, -32768, 32767).astype(np.int16)
    return rounded
