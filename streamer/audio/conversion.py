"""From any rate and number of channels to int16 at 16 kHz, in streaming.

All arithmetic is in float32 and is rounded once, at the end; how the sound is cut into pieces changes no sample.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr  # type: ignore[import-untyped]

Block = npt.NDArray[np.int16]
Samples = npt.NDArray[np.float32]

SAMPLE_RATE: Final = 16_000

# Full scale is 1. Louder is nonsense, and an overflow, as a NaN, would live on in the filter.
_LOUDEST: Final = np.float32(16.0)


class Conversion:
    """Samples of [frames, channels] in, int16 of [frames, streams] out: one for each channel, or one of the mix."""

    def __init__(self, sample_rate: int, channels: int, *, separate: bool = False) -> None:
        self.streams = channels if separate else 1
        self._mixes = self.streams < channels
        self._resampler: Any = None
        if sample_rate != SAMPLE_RATE:
            # Made for a rate that varies, which ours does not. But it works sample by sample, and so holds back
            # 240 samples (30 ms at 8 kHz, 14 ms at 48 kHz), where the other kind works in blocks of up to 115 ms.
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, self.streams, dtype="float32", vr=True)

    def convert(self, samples: Samples, *, last: bool = False) -> Block:
        """The next samples; after the `last` nothing is held back any more."""
        samples = np.clip(np.nan_to_num(samples), -_LOUDEST, _LOUDEST)
        if self._mixes:
            samples = samples.mean(axis=1, dtype=np.float32, keepdims=True)
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(np.ascontiguousarray(samples), last=last)
        return _rounded(samples)


def _rounded(samples: Samples) -> Block:
    scaled = np.rint(samples * np.float32(32768.0))
    rounded: Block = np.clip(scaled, -32768, 32767).astype(np.int16)
    return rounded
