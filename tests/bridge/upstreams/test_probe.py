"""Readiness from a real sequence."""

from __future__ import annotations

from pathlib import Path

from streamer.bridge.upstreams.probe import Probe
from streamer.testing.exact_repository import exact_repository
from streamer.triton.link import Link
from streamer.triton.server import TritonServer
from tests.triton_processes import no_streams, stubs


async def test_probe(triton: TritonServer) -> None:
    """A successful probe makes the model ready, and leaves no stream behind."""
    async with await Link.connect(triton.grpc_address) as link:
        probing = Probe(link)
        assert not probing.ready
        assert await probing.probe()
        assert probing.ready
    await no_streams(triton)


async def test_failed_probe(triton: TritonServer) -> None:
    """A failed probe says why, and does not make the model ready."""
    link = await Link.connect(triton.grpc_address)
    probing = Probe(link)
    await link.close()
    assert not await probing.probe()
    assert not probing.ready
    assert "closed" in str(probing.failure)


async def test_every_instance(tmp_path: Path) -> None:
    """A probe reaches every instance of the model, and fails when the process of one has died."""
    with TritonServer(exact_repository(tmp_path), instances=2, slots=4) as two:
        async with await Link.connect(two.grpc_address) as link:
            probing = Probe(link, 2)
            assert await probing.probe()
            assert len(probing.reached) == 2
            next(iter(stubs(two.pid))).kill()
            assert not await probing.probe()
            # A killed stub may end its server, and then the stream has ended too.
            assert probing.failure is not None
            assert probing.failure.code == "unavailable"
