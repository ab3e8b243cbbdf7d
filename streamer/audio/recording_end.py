"""Checks whether a recording is complete: by the length in its header, and by the end mark of Ogg."""

from __future__ import annotations

import os
import struct
from io import FileIO
from typing import BinaryIO, Final, NamedTuple

# Lengths in headers that were written before the length was known: zero, or about the largest number.
_UNKNOWN: Final = (range(1), range(0x7FFFF000, 0x80000001), range(0xFFFFF000, 0x1_0000_0000))
_MOST_CHUNKS: Final = 1000
_HEAD: Final = 1 << 16  # bytes that may come before the samples
_OGG_TAIL: Final = 128 * 1024  # a page has at most 65 307 bytes
_OGG_PAGE: Final = struct.Struct("<4sBBqIIIB")
_LAST_PAGE: Final = 4


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


def header_of(file: BinaryIO | FileIO) -> WaveHeader | None:
    """Return the header of a WAV file. None for other files."""
    file.seek(0)
    return wave_header(file.read(_HEAD) or b"")


class FileWithLength:
    """A WAV file without a length in its header. It is read as if the header had the right one."""

    def __init__(self, file: FileIO, header: WaveHeader) -> None:
        self._file = file
        size = file.seek(0, os.SEEK_END) - header.begin
        self._place, self._patch = header.begin - 4, min(size, 0xFFFFFFFF).to_bytes(4, "little")
        file.seek(0)

    def read(self, most: int = -1) -> bytes:
        """Return the next bytes."""
        begin = self._file.tell()
        data = bytearray(self._file.read(most) or b"")
        for index, byte in enumerate(self._patch, self._place - begin):
            if 0 <= index < len(data):
                data[index] = byte
        return bytes(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def write(self, data: bytes) -> int:
        """Raise OSError: the file can only be read."""
        raise OSError("not writable")


def with_length(file: FileIO, header: WaveHeader | None) -> FileWithLength | None:
    """Return the file with a length in its header, if that has none although samples follow. None for other files."""
    if header is None or header.size is not None:
        return None
    length = file.seek(0, os.SEEK_END)
    file.seek(header.begin)
    following = file.read(8) or b""
    file.seek(0)
    # A file without samples may have other chunks there.
    notes = following[:4].isalnum() and header.begin + 8 + int.from_bytes(following[4:], "little") <= length
    if len(following) < 8 or notes:
        return None
    return FileWithLength(file, header)


def lacks_end_mark(file: BinaryIO | FileIO) -> bool:
    """Return whether this is an Ogg file whose last page is not marked as the last."""
    file.seek(0)
    if file.read(4) != b"OggS":
        return False
    file.seek(max(0, file.seek(0, os.SEEK_END) - _OGG_TAIL))
    tail = file.read(_OGG_TAIL) or b""
    place = tail.rfind(b"OggS")
    if place < 0 or place + _OGG_PAGE.size > len(tail):
        return True
    _, _, kind, _, _, _, _, segments = _OGG_PAGE.unpack_from(tail, place)
    lengths = tail[place + _OGG_PAGE.size : place + _OGG_PAGE.size + segments]
    whole = len(lengths) == segments and place + _OGG_PAGE.size + segments + sum(lengths) <= len(tail)
    return not (kind & _LAST_PAGE and whole)


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
