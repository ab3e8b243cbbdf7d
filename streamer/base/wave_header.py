"""Reads the header of a WAV file: how its samples are written, where they begin, and how many there are. Pure."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

# The encodings that can be decoded as they come, by format and bits of a sample.
ENCODINGS: Final = {(1, 16): "pcm_s16le", (3, 32): "pcm_f32le", (6, 8): "alaw", (7, 8): "mulaw"}
# Lengths in headers that were written before the length was known: zero, or about the largest number.
_UNKNOWN: Final = (range(1), range(0x7FFFF000, 0x80000001), range(0xFFFFF000, 0x1_0000_0000))
_MOST_CHUNKS: Final = 1000


class WaveHeader(NamedTuple):
    """The content of a WAV file's header."""

    format: int  # 1: whole numbers, 3: floats, 6: A-law, 7: µ-law
    channels: int
    sample_rate: int
    frame_bytes: int
    sample_bits: int
    begin: int  # where the samples begin in the file
    size: int | None  # bytes of samples, if known

    @property
    def seconds(self) -> float | None:
        """The length, if known. It cannot be known for compressed samples."""
        plain = self.format in (1, 3, 6, 7) and self.frame_bytes == self.channels * -(-self.sample_bits // 8)
        return self.size / self.frame_bytes / self.sample_rate if plain and self.size is not None else None


def wave_header(head: bytes) -> WaveHeader | None:
    """Read the header of WAV or RF64. None if there is none, or if it is incomplete."""
    if head[:4] not in (b"RIFF", b"RF64") or head[8:12] != b"WAVE":
        return None
    place, format, long_size = 12, b"", None
    for _ in range(_MOST_CHUNKS):
        if place + 8 > len(head):
            return None
        name, size = head[place : place + 4], int.from_bytes(head[place + 4 : place + 8], "little")
        content = head[place + 8 : place + 8 + size]
        if name == b"data":
            return _header(format, place + 8, long_size if size == 0xFFFFFFFF and long_size else size)
        if name == b"fmt ":
            format = content
        elif name == b"ds64" and len(content) >= 16:
            long_size = int.from_bytes(content[8:16], "little")
        place += 8 + size + size % 2
    return None


def _header(format: bytes, begin: int, size: int) -> WaveHeader | None:
    if len(format) < 16:
        return None
    kind, channels, rate, _, frame_bytes, bits = struct.unpack_from("<HHIIHH", format)
    if kind == 0xFFFE and len(format) >= 26:  # the kind is in the extension
        kind = int.from_bytes(format[24:26], "little")
    if not channels or not rate or not frame_bytes:
        return None
    known_size = None if any(size in numbers for numbers in _UNKNOWN) else size
    return WaveHeader(kind, channels, rate, frame_bytes, bits, begin, known_size)
