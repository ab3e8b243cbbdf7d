"""The header of a WAV file: complete or not, of each kind, with other chunks, and of unknown length."""

from __future__ import annotations

import struct

import pytest

from streamer.base.wave_header import ENCODINGS, wave_header


def head(kind: int = 1, bits: int = 16, size: int = 8, before: bytes = b"", extension: bytes = b"") -> bytes:
    """Return the header of a file of two channels at 8 kHz, with these chunks before its samples."""
    frame = 2 * bits // 8
    content = struct.pack("<HHIIHH", kind, 2, 8000, 8000 * frame, frame, bits) + extension
    chunks = b"fmt " + struct.pack("<I", len(content)) + content + before
    return b"RIFF" + struct.pack("<I", size) + b"WAVE" + chunks + b"data" + struct.pack("<I", size)


def test_a_header() -> None:
    """It says how samples are written, where they begin, and how long they last."""
    found = wave_header(head() + bytes(8))
    assert found is not None
    samples = (found.format, found.channels, found.sample_rate, found.frame_bytes, found.sample_bits)
    assert samples == (1, 2, 8000, 4, 16)
    assert (found.begin, found.size, found.seconds) == (44, 8, 2 / 8000)
    assert ENCODINGS[found.format, found.sample_bits] == "pcm_s16le"


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x80000000, 0xFFFFF000, 0xFFFFFFFF])
def test_an_unknown_length(size: int) -> None:
    """A program that writes into a pipe does not know it."""
    found = wave_header(head(size=size))
    assert found is not None
    assert (found.size, found.seconds) == (None, None)


def test_other_chunks_and_extensions() -> None:
    """What stands before the samples is skipped, also of an odd length; the kind may be in an extension."""
    note = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    extension = struct.pack("<HHIH", 22, 16, 3, 3) + bytes(14)
    found = wave_header(head(0xFFFE, 32, before=note, extension=extension))
    assert found is not None
    assert (found.format, found.sample_bits, found.begin) == (3, 32, 44 + len(note) + len(extension))


def test_what_is_none() -> None:
    """It is incomplete, has no rate, or is another file."""
    whole = head()
    assert all(wave_header(whole[:length]) is None for length in range(len(whole)))
    assert wave_header(b"OggS" + whole[4:]) is None
    assert wave_header(whole.replace(struct.pack("<I", 8000), bytes(4), 1)) is None
