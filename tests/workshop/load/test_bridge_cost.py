"""The clients of the measurement of the bridge: what they send and hear, and what they take for a failure."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest
from websockets.frames import Opcode

from streamer.bridge.service import Service
from tests.bridge.http.websocket_handler import masked
from workshop.load.bridge_cost import NotMeasured, Talk, chunk_frames, frame, speech


@pytest.mark.parametrize("size", [0, 125, 126, 3200])
def test_frames(size: int) -> None:
    """A frame is what the library writes, but with a mask of zeros."""
    content = bytes(range(256)) * 13
    data, other = frame(content[:size]), masked(Opcode.BINARY, content[:size])
    assert len(data) == len(other)
    assert data[: len(data) - size - 4] == other[: len(other) - size - 4]
    assert data[len(data) - size - 4 :] == bytes(4) + content[:size]


async def test_a_talk(exact_service: Service) -> None:
    """A talk ends in order at its time, and says how late each partial was that is measured."""
    now = time.monotonic()
    talk = Talk(exact_service.url, itertools.cycle(chunk_frames(speech(), 100)), 0.1, now + 0.5, now + 3)
    await talk.speak(now)
    assert len(talk.partials_s) >= 2
    assert all(0 < late < 60 for late in talk.partials_s)
    assert 0 < talk.last_s < 60


async def test_a_refused_talk(exact_service: Service) -> None:
    """A talk that is refused, or sends what is none, says why it has failed."""
    now = time.monotonic()
    nowhere = exact_service.url.replace("/v1/stream", "/v1/nothing")
    with pytest.raises(NotMeasured, match="404"):
        await Talk(nowhere, [], 0.1, now, now + 1).speak(now)
    with pytest.raises(NotMeasured, match="dance"):
        await Talk(exact_service.url, [frame(b'{"type":"dance"}', 1)] * 9, 0.1, now, now + 1).speak(now)


async def test_the_service_is_gone(unused_tcp_port: int) -> None:
    """Without a service, the talk fails like any connection."""
    with pytest.raises(OSError, match=r"[Cc]onnect"):
        await asyncio.wait_for(Talk(f"ws://127.0.0.1:{unused_tcp_port}/v1/stream", [], 0.1, 0, 0).speak(0), 60)
