"""Encoded sound as a client sends it, in pieces of any length, decoded to int16 at 16 kHz."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from streamer.audio.conversion import SAMPLE_RATE, Block, Conversion, Samples

_FULL_SCALE: Final = np.float32(1 / 32768)


class Decoder:
    """One stream of sound: bytes in, a block for each stream out. Lanes are the channels, or one of their mix."""

    def __init__(self, encoding: str, sample_rate: int, channels: int = 1, *, separate: bool = False) -> None:
        self._sample_bytes, self._samples = ENCODINGS[encoding]
        self._channels = channels
        self._rest = b""  # of a frame: a sample of every channel
        self._conversion = Conversion(sample_rate, channels, separate=separate)
        self.streams = self._conversion.streams
        self.received = 0  # bytes
        # What needs no arithmetic gets none: most sessions are like that.
        self._as_it_is = (encoding, sample_rate, channels) == ("pcm_s16le", SAMPLE_RATE, self.streams)

    @property
    def frame_bytes(self) -> int:
        """One sample of every channel."""
        return self._sample_bytes * self._channels

    @property
    def in_frame(self) -> bool:
        """Whether the sound so far ends within a frame."""
        return bool(self._rest)

    def drop_rest(self) -> int:
        """Forget what is less than a frame, as it will come again; how many whole frames came so far."""
        self.received -= len(self._rest)
        self._rest = b""
        return self.received // self.frame_bytes

    def decode(self, data: bytes) -> list[Block]:
        """What these bytes add to each stream; what is less than a frame is completed by the next piece."""
        self.received += len(data)
        data = self._rest + data if self._rest else data
        whole = len(data) - len(data) % self.frame_bytes
        self._rest = data[whole:]
        if self._as_it_is:
            return self._divided(np.frombuffer(data[:whole], "<i2").astype(np.int16, copy=False))
        return self._divided(self._conversion.convert(self._samples(data[:whole]).reshape(-1, self._channels)))

    def finish(self) -> list[Block]:
        """The end of the sound: what the resampler held back. Half a frame is left out."""
        nothing = np.empty((0, self._channels), np.float32)
        return self._divided(self._conversion.convert(nothing, last=True))

    def _divided(self, block: Block) -> list[Block]:
        return list(np.ascontiguousarray(block.reshape(-1, self.streams).T))


def _s16le(data: bytes) -> Samples:
    return np.frombuffer(data, "<i2").astype(np.float32) * _FULL_SCALE


def _f32le(data: bytes) -> Samples:
    return np.frombuffer(data, "<f4").astype(np.float32, copy=False)


def _mulaw(data: bytes) -> Samples:
    return _MULAW[np.frombuffer(data, np.uint8)]


def _alaw(data: bytes) -> Samples:
    return _ALAW[np.frombuffer(data, np.uint8)]


def _mulaw_table() -> Samples:
    """ITU-T G.711: all bits inverted; a sign, three bits of exponent, four of mantissa, a bias (132 in 16 bits)."""
    code = ~np.arange(256, dtype=np.uint8)
    magnitude = (((code & 15).astype(np.int32) << 3) + 132 << (code >> 4 & 7)) - 132
    return _table(np.where(code & 128, -magnitude, magnitude))


def _alaw_table() -> Samples:
    """ITU-T G.711: every other bit inverted, the sign the other way round; the lowest exponent has no leading one."""
    code = np.arange(256, dtype=np.uint8) ^ np.uint8(0x55)
    exponent = (code >> 4 & 7).astype(np.int32)
    step = ((code & 15).astype(np.int32) << 4) + 8
    magnitude = np.where(exponent, step + 256 << np.maximum(exponent - 1, 0), step)
    return _table(np.where(code & 128, magnitude, -magnitude))


def _table(linear: npt.NDArray[np.int32]) -> Samples:
    return linear.astype(np.float32) * _FULL_SCALE


_MULAW: Final = _mulaw_table()
_ALAW: Final = _alaw_table()

# The bytes of a sample, and what makes numbers of them, full scale being 1.
ENCODINGS: Final[dict[str, tuple[int, Callable[[bytes], Samples]]]] = {
    "pcm_s16le": (2, _s16le),
    "pcm_f32le": (4, _f32le),
    "mulaw": (1, _mulaw),
    "alaw": (1, _alaw),
}
