"""How `streamer serve` ends: sessions go on for a while and get their finals; a second signal ends them at once."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say
from tests.bridge.service_client import SPOKEN, Event, receive, recognise, rest, session, text
from tests.serve_process import Serving, serving
from tests.triton_processes import shared_memory, shared_memory_names

SPEECH = say("this goes on for a while and nobody pauses " * 4).tobytes()  # for an exact model
PIECE = 10_240


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exact model."""
    return exact_repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def triton(exact_triton: TritonServer) -> TritonServer:
    """An exact model: these tests are about the end of the service."""
    return exact_triton


async def not_ready(served: Serving) -> None:
    """Wait until it reports that it is not ready."""
    while (await asyncio.to_thread(lambda: served.state))["ready"]:  # noqa: ASYNC110 nothing tells when
        await asyncio.sleep(0.01)


async def refused(url: str) -> Event:
    """The answer to a session that comes too late."""
    async with connect(url) as late:
        await late.send('{"type":"start"}')
        (error,) = await rest(late)
        assert late.close_code == 1013
        assert "try again in 5 s" in (late.close_reason or "")
    return error


async def test_sessions_go_on(triton: TritonServer) -> None:
    """After SIGTERM the service refuses new sessions, and ends when the others have said everything."""
    with serving("--triton", triton.grpc_address) as served:
        whole = text(await recognise(served.url, SPOKEN))
        served.send()
        assert served.ended() == 0
    with serving("--triton", triton.grpc_address, "--drain-limit", "60") as served:
        assert served.state["ready"]
        async with session(served.url) as websocket:
            reading = asyncio.create_task(rest(websocket))
            await websocket.send(SPOKEN[:200_000])
            served.send()
            await not_ready(served)
            assert (await refused(served.url))["code"] == "shutting_down"
            assert "streamer_ready 0.0" in await asyncio.to_thread(lambda: served.exposition)
            for place in range(200_000, len(SPOKEN), PIECE):
                await websocket.send(SPOKEN[place : place + PIECE])
                await asyncio.sleep(0.02)
            await websocket.send('{"type":"stop"}')
            events = await reading
            assert (events[-1]["type"], websocket.close_code) == ("done", 1000)
            assert text(events) == whole
        assert await asyncio.to_thread(served.ended) == 0
    assert any(" draining sessions=1 seconds=60" in line for line in served.lines)


async def test_until_a_limit(triton: TritonServer) -> None:
    """A session that does not end by itself gets its recognised words, and then the reason."""
    with serving("--triton", triton.grpc_address, "--drain-limit", "3") as served:
        async with session(served.url) as websocket:
            served.send()
            await not_ready(served)
            await websocket.send(SPOKEN[: 10 * PIECE])
            events = await rest(websocket)
        assert await asyncio.to_thread(served.ended) == 0
    assert (events[-1]["code"], websocket.close_code) == ("shutting_down", 1013)
    finals = [event for event in events if event["type"] == "final"]
    assert finals
    assert finals[-1]["audio_ms"] == 3200  # all of it came after the signal


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal(repository: Path, second: signal.Signals) -> None:
    """A second signal ends it at once, even during speech, and no process, shared memory or socket is left."""
    with serving("--repository", str(repository), "--drain-limit", "600", "--slots", "4") as served:
        [server] = [process for process in served.descendants() if process.name() == "tritonserver"]
        prefixes, family = shared_memory_names(server.pid), served.descendants()
        assert shared_memory(prefixes)
        async with session(served.url) as websocket:
            await websocket.send(SPEECH)
            await receive(websocket)
            served.send()
            await not_ready(served)
            await websocket.send(json.dumps({"type": "keepalive"}))
            assert served.process.poll() is None
            served.send(second)
            status = await asyncio.to_thread(served.ended)
            await rest(websocket)
    assert status == 143
    assert not served.control.exists()
    psutil.wait_procs(family, timeout=60)
    assert not [process for process in family if process.is_running()]
    assert not shared_memory(prefixes)


async def test_a_hung_triton_delays_nobody(repository: Path) -> None:
    """A second signal ends it at once, even if Triton hangs."""
    with serving("--repository", str(repository), "--drain-limit", "600", "--slots", "4") as served:
        [server] = [process for process in served.descendants() if process.name() == "tritonserver"]
        prefixes, family = shared_memory_names(server.pid), served.descendants()
        async with session(served.url) as websocket:
            await websocket.send(SPEECH[:100_000])
            await receive(websocket)
            server.suspend()
            served.send()
            await not_ready(served)
            served.send()
            status = await asyncio.to_thread(served.ended)
            await rest(websocket)
    assert status == 143
    psutil.wait_procs(family, timeout=60)
    assert not [process for process in family if process.is_running()]
    assert not shared_memory(prefixes)
