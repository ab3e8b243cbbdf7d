"""Live sessions at a real service, and how late their partials are."""

from __future__ import annotations

import asyncio
import time

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from tests.samples import pcm
from workshop.load.live_sessions import LagWatch, open_sessions, period


async def test_two_sessions(triton: TritonServer) -> None:
    """The sessions run until they are ended, and then end in order."""
    async with Service(triton.grpc_address, port=0) as service:
        since = time.monotonic()
        sessions = await open_sessions(service.url, pcm("talk.flac"), 2, 0.5)
        lag = LagWatch(service.url)
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(3.0)  # as much speech; the words may come later
        watching.cancel()
        await asyncio.gather(*(session.end() for session in sessions))
    assert [session.ended for session in sessions] == ["done", "done"]
    seen = period(sessions, lag, since, time.monotonic())
    assert seen.sessions == 2
    assert seen.quantile(0.5) > 0


async def test_refused(triton: TritonServer) -> None:
    """A service that admits fewer sessions is an error, and is not measured with fewer."""
    async with Service(triton.grpc_address, port=0, sessions=1) as service:
        with pytest.raises(ConnectionError, match="was refused: full"):
            await open_sessions(service.url, pcm("talk.flac"), 2, 1.0)
