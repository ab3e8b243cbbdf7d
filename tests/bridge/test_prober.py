"""Readiness that comes from a real sequence."""

from __future__ import annotations

import asyncio

import pytest

from streamer.bridge import prober
from streamer.bridge.metrics import Metrics
from streamer.bridge.prober import Prober
from streamer.triton.link import Link
from streamer.triton.server import TritonServer
from tests.bridge.clients import no_streams


async def test_probe(triton: TritonServer) -> None:
    """A probe that comes back makes ready, and leaves no stream behind."""
    metrics = Metrics()
    async with await Link.connect(triton.grpc_address) as link:
        probing = Prober(link, metrics)
        assert not probing.ready
        assert await probing.probe()
        assert probing.ready
        assert b"streamer_ready 1.0" in metrics.exposition()
    await no_streams(triton)


async def test_failed_probe(triton: TritonServer) -> None:
    """A probe that fails says why, and does not make ready."""
    link = await Link.connect(triton.grpc_address)
    probing = Prober(link, Metrics())
    await link.close()
    assert not await probing.probe()
    assert not probing.ready
    assert "closed" in probing.failure


async def test_run_ends_with_the_link(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probing ends when the link does."""
    monkeypatch.setattr(prober, "EVERY_S", 0.05)
    link = await Link.connect(triton.grpc_address)
    probing = Prober(link, Metrics())
    running = asyncio.create_task(probing.run())
    await asyncio.sleep(0.5)
    assert probing.ready
    await link.close()
    await asyncio.wait_for(running, 5)
