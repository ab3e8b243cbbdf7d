"""Memory that many connections held goes back to the system."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from streamer.bridge import freed_memory
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.freed_memory import CROWD, GONE, FreedMemory
from tests.bridge.access.bare_port import listening
from tests.bridge.access.certificate_authority import Authority


async def test_handshakes_that_do_not_go_on(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once silent connections are cut off, the process is nearly as large as before."""
    monkeypatch.setattr(freed_memory, "SHORTEST_INTERVAL_S", 0.0)
    certificate = Certificate(authority.chain, authority.key)
    async with listening(certificate=certificate, handshake_s=0.5) as server:
        before = psutil.Process().memory_info().rss
        held = 0
        for _ in range(3):
            silent = [(await asyncio.open_connection("127.0.0.1", server.port))[1] for _ in range(200)]
            held = max(held, psutil.Process().memory_info().rss)
            while any(server._metrics.connections().values()):  # noqa: ASYNC110 nothing tells
                await asyncio.sleep(0.05)
            for writer in silent:
                writer.transport.abort()
        for _ in range(1200):
            if psutil.Process().memory_info().rss - before < (held - before) // 2:
                return
            await asyncio.sleep(0.05)
    raise AssertionError((before, held, psutil.Process().memory_info().rss))


async def test_once_for_each_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few connections do not count as a crowd, and crowds in quick succession count as one."""
    calls: list[None] = []
    monkeypatch.setattr(freed_memory, "DELAY_S", 0.0)
    monkeypatch.setattr(freed_memory, "give_back", lambda: calls.append(None))
    freed = FreedMemory()
    few = [*range(CROWD), *range(CROWD, CROWD // GONE, -1)]
    for number in few:
        freed.note(number)
    await asyncio.sleep(0.01)
    assert not calls
    for _ in range(3):
        for number in (*few, CROWD // GONE, 0):
            freed.note(number)
        await asyncio.sleep(0.01)
    assert len(calls) == 1
