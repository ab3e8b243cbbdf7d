"""The whole service, with its own Triton."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from streamer.bridge.server import BridgeServer, PortError
from streamer.bridge.service import Service
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import LinkError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from tests.bridge.service_client import SPOKEN, recognise, serving, text
from tests.bridge.upstreams.opened_models import models_at, until

READY = "Started GRPCInferenceService"  # in Triton's log, once its models are loaded


async def test_own_triton(tmp_path: Path) -> None:
    """The service waits for a Triton that is still starting, limits sessions to its slots, and stops it at the end."""
    triton = TritonServer(exact_repository(tmp_path), slots=4)
    triton.start()
    async with Service(triton, port=0) as service:
        assert b"streamer_sessions_limit 3.0" in service.metrics.exposition()
        assert text(await recognise(service.url, SPOKEN[:200_000]))
        assert triton.running
    assert not triton.running


@pytest.mark.fails_inside
async def test_a_failure_that_nobody_waits_for(triton: TritonServer) -> None:
    """A failure that nothing awaits is counted; after the service has ended, the loop handles failures again."""

    async def fail() -> None:
        raise RuntimeError("a fault of ours")

    loop = asyncio.get_running_loop()
    async with serving(triton) as service:
        task = asyncio.create_task(fail())
        await asyncio.wait({task})
        del task
        gc.collect()
        assert b'streamer_unexpected_failures_total{part="event_loop"} 1.0' in service.metrics.exposition()
    assert loop.get_exception_handler() is None


async def test_port_taken_with_a_starting_triton(tmp_path: Path) -> None:
    """A port in use is reported at once, and nothing of Triton is left."""
    other = BridgeServer("127.0.0.1", 0, models_at(), Metrics())
    await other.start()
    triton = TritonServer(asr_repository(), models=[MODEL], log=tmp_path / "log")
    triton.start()
    try:
        with pytest.raises(PortError, match="is already in use"):
            async with Service(triton, port=int(other.url.split(":")[2].split("/")[0])):
                pass
    finally:
        await other.stop()
    assert not triton.running
    assert READY not in (tmp_path / "log").read_text()


async def test_no_triton() -> None:
    """If no Triton answers, the error names the address."""
    with pytest.raises(LinkError, match=r"127\.0\.0\.1:9"):
        async with Service("127.0.0.1:9", port=0):
            pass


async def test_cancelled_while_starting(tmp_path: Path) -> None:
    """Cancelling before Triton is ready leaves nothing behind, and is quick."""
    triton = TritonServer(asr_repository(), models=[MODEL], log=tmp_path / "log")
    entering = asyncio.create_task(Service(triton, port=0).__aenter__())
    await until(lambda: triton.running)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not triton.running
    assert READY not in (tmp_path / "log").read_text()
