"""Decodes audio as a client sends it, and converts it, chunk by chunk, to int16 at 16 kHz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr  # type: ignore[import-untyped]

_FULL_SCALE: Final = np.float32(1 / 32768)


class AudioDecoder:
    """Decodes the audio of one session: bytes in, samples for each stream out.

    There is a stream for each channel, or a single one for the mix of all channels.
    """

    def __init__(self, encoding: str, sample_rate: int, channels: int = 1, *, separate: bool = False) -> None:
        self._sample_bytes, self._to_floats = ENCODINGS[encoding]
        self._channels = channels
        self._rest = b""  # an incomplete frame; a frame has one sample of every channel
        self._converter = SampleConverter(sample_rate, channels, separate=separate)
        self.streams = self._converter.streams
        self.received_bytes = 0
        # The audio of most sessions needs no conversion at all.
        self._needs_no_conversion = (encoding, sample_rate, channels) == ("pcm_s16le", SAMPLE_RATE, self.streams)

    @property
    def frame_bytes(self) -> int:
        """The bytes of one frame, which has one sample of every channel."""
        return self._sample_bytes * self._channels

    @property
    def in_frame(self) -> bool:
        """Whether the audio so far ends in the middle of a frame."""
        return bool(self._rest)

    def drop_rest(self) -> int:
        """Forget an incomplete frame, which the client will send again. Return the number of whole frames so far."""
        self.received_bytes -= len(self._rest)
        self._rest = b""
        return self.received_bytes // self.frame_bytes

    def pcm(self, data: bytes) -> list[bytes]:
        """Return what decode() does, as bytes. Whole samples that need no conversion stay as they are."""
        if self._needs_no_conversion and self.streams == 1 and not self._rest and len(data) % self.frame_bytes == 0:
            self.received_bytes += len(data)
            return [data]
        return [samples.tobytes() for samples in self.decode(data)]

    def decode(self, data: bytes) -> list[Int16Samples]:
        """Return the samples that this chunk adds to each stream. An incomplete frame waits for the next chunk."""
        self.received_bytes += len(data)
        data = self._rest + data if self._rest else data
        whole = len(data) - len(data) % self.frame_bytes
        self._rest = data[whole:]
        if self._needs_no_conversion:
            return self._split(np.frombuffer(data[:whole], "<i2").astype(np.int16, copy=False))
        return self._split(self._converter.convert(self._to_floats(data[:whole]).reshape(-1, self._channels)))

    def finish(self) -> list[Int16Samples]:
        """End the audio. Return the samples that the resampler held back. An incomplete frame is dropped."""
        nothing = np.empty((0, self._channels), np.float32)
        return self._split(self._converter.convert(nothing, last=True))

    def _split(self, samples: Int16Samples) -> list[Int16Samples]:
        return list(np.ascontiguousarray(samples.reshape(-1, self.streams).T))


def _s16le(data: bytes) -> FloatSamples:
    return np.frombuffer(data, "<i2").astype(np.float32) * _FULL_SCALE


def _f32le(data: bytes) -> FloatSamples:
    return np.frombuffer(data, "<f4").astype(np.float32, copy=False)


def _mulaw(data: bytes) -> FloatSamples:
    return _MULAW[np.frombuffer(data, np.uint8)]


def _alaw(data: bytes) -> FloatSamples:
    return _ALAW[np.frombuffer(data, np.uint8)]


def _mulaw_table() -> FloatSamples:
    """Compute µ-law of ITU-T G.711: inverted bits; a sign, an exponent of 3 bits, a mantissa of 4, a bias of 132."""
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = (((code & 15).astype(np.int32) << 3) + 132 << (code >> 4 & 7)) - 132
    return _table(np.where(code & 128, -magnitude, magnitude))


def _alaw_table() -> FloatSamples:
    """Compute A-law of ITU-T G.711: every other bit inverted, opposite sign; the lowest exponent has no leading one."""
    code = np.arange(256, dtype=np.uint8) ^ np.uint8(0x55)
    exponent = (code >> 4 & 7).astype(np.int32)
    step = ((code & 15).astype(np.int32) << 4) + 8
    magnitude = np.where(exponent, step + 256 << np.maximum(exponent - 1, 0), step)
    return _table(np.where(code & 128, magnitude, -magnitude))


def _table(linear: npt.NDArray[np.int32]) -> FloatSamples:
    return linear.astype(np.float32) * _FULL_SCALE


_MULAW: Final = _mulaw_table()
_ALAW: Final = _alaw_table()

# By encoding: the bytes of a sample, and the function that turns bytes into floats with a full scale of 1.
ENCODINGS: Final[dict[str, tuple[int, Callable[[bytes], FloatSamples]]]] = {
    "pcm_s16le": (2, _s16le),
    "pcm_f32le": (4, _f32le),
    "mulaw": (1, _mulaw),
    "alaw": (1, _alaw),
}


# Converts samples of any rate and number of channels to int16 at 16 kHz, chunk by chunk.

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
