"""Frames of a decoder that may have been taken over."""

from __future__ import annotations

import pytest

from streamer.audio.frames import (
    HEAD_BYTES,
    End,
    Frame,
    FrameError,
    Opened,
    Problem,
    ProblemCode,
    Samples,
    content_length,
    decode,
    encode,
)


@pytest.mark.parametrize(
    "frame", [Opened(2, 1.5), Opened(1), Samples(b"\1\2"), Problem(ProblemCode.DAMAGED, "It is."), End()]
)
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    """A frame has the length of its content in its head, and is read as it was written."""
    data = encode(frame)
    assert content_length(data[:HEAD_BYTES]) == len(data) - HEAD_BYTES
    assert decode(data[:HEAD_BYTES], data[HEAD_BYTES:]) == frame


@pytest.mark.parametrize("head", [b"x\0\0\0\0", b"s\xff\xff\xff\xff", b"s\0\1\0\1"])
def test_what_is_no_frame_is_refused(head: bytes) -> None:
    """Unknown kinds and excessive lengths are refused."""
    with pytest.raises(FrameError):
        content_length(head)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (b"o", b'{"channels": 9, "seconds": 1}'),
        (b"o", b'{"channels": 0, "seconds": 1}'),
        (b"o", b'{"channels": "many", "seconds": 1}'),
        (b"o", b"[]"),
        (b"o", b"{"),
        (b"p", b'{"code": "else", "message": ""}'),
    ],
)
def test_content_that_is_not_right_is_refused(kind: bytes, content: bytes) -> None:
    """Wrong content raises FrameError and no other exception."""
    with pytest.raises(FrameError):
        decode(kind + len(content).to_bytes(4, "big"), content)
