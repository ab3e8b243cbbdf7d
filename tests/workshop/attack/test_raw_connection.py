"""Valid frames are the same as those of the library, and random ones end connections in every way."""

from __future__ import annotations

import random

import pytest
from websockets.frames import Frame, Opcode

from streamer.bridge.http.messages import Messages
from workshop.attack.raw_connection import BINARY, PING, TEXT, fragments, frame, wild_frame

LARGEST = 100_000


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_a_proper_frame(size: int) -> None:
    """A valid frame is the same as the library's, except for its mask."""
    ours, theirs = frame(BINARY, bytes(size)), Frame(Opcode.BINARY, bytes(size)).serialize(mask=True)
    place = len(ours) - size
    assert (ours[: place - 4], len(ours)) == (theirs[: place - 4], len(theirs))
    assert frame(BINARY, bytes(size), masked=False) == Frame(Opcode.BINARY, bytes(size)).serialize(mask=False)


def test_fragments() -> None:
    """Fragments are one message, whatever is sent between them."""
    messages = Messages(LARGEST)
    assert messages.feed(fragments(b"in pieces", [0, 1, 2, 0, 3], TEXT, between=frame(PING))) == ["in pieces"]
    assert messages.output() == (frame(10, masked=False) * 5, False)


def test_wild_frames() -> None:
    """Random frames differ, end connections in different ways, and cause no unexpected error."""
    closes, rng = set(), random.Random(1)
    for _ in range(500):
        messages = Messages(LARGEST)
        messages.feed(b"".join(wild_frame(rng) for _ in range(20)))
        assert messages.failure is None
        closes.add(messages.verdict and messages.verdict[0])
    assert closes == {None, 1002, 1007, 1009}
