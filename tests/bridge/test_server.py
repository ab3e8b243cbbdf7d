"""The port in front of a real Triton, tested with real websockets, and the memory that connections held."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress

import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge import server as freed_memory
from streamer.bridge import sessions
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.http import channel
from streamer.bridge.server import CROWD, GONE, BridgeServer, FreedMemory, PortError
from streamer.bridge.service import Service
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import probe as prober
from tests.bridge.access.bare_port import listening
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.service_client import SPOKEN, START, eventually, receive, recognise, rest, serving, session, text
from tests.bridge.upstreams.opened_models import models_at
from tests.triton_processes import no_streams


async def test_full(triton: TritonServer) -> None:
    """Sessions above the limit are refused with the seconds to wait; an ended session makes room."""
    async with serving(triton, sessions=1) as service:
        async with session(service.url) as first:
            async with connect(service.url) as second:
                await second.send(START)
                (error,) = await rest(second)
                assert (error["code"], error["fatal"]) == ("full", True)
                assert error["message"].startswith("The only session is taken;")
                assert second.close_code == 1013
                assert second.close_reason == "full: try again in 5 s"
            assert await plain(service.url) == (503, "5")
            await first.send('{"type":"stop"}')
            assert (await rest(first))[-1]["type"] == "done"
        assert text(await recognise(service.url, SPOKEN[:200_000]))
        assert await plain(service.url) == (426, None)


async def plain(url: str) -> tuple[int, str | None]:
    """Return status and Retry-After of a plain request at the websocket's path."""

    def ask() -> tuple[int, str | None]:
        port = http.client.HTTPConnection(url.split("/")[2], timeout=60)
        try:
            port.request("GET", "/v1/stream")
            response = port.getresponse()
            return response.status, response.headers["Retry-After"]
        finally:
            port.close()

    return await asyncio.to_thread(ask)


async def test_waiting_connections_are_bounded(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a session are bounded too."""
    monkeypatch.setattr(sessions, "MOST_WAITING", 2)
    async with (
        serving(triton) as service,
        connect(service.url),
        connect(service.url),
        connect(service.url) as third,
    ):
        (error,) = await rest(third)
        assert (error["code"], third.close_code) == ("full", 1013)


async def test_handshakes_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a request are bounded; one that goes on or ends makes room."""
    monkeypatch.setattr(channel, "MOST_OPENING", 2)
    host, port = service.url.split("/")[2].split(":")

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(host, int(port))

    silent = [await opened(), await opened()]
    reader, writer = await opened()
    with suppress(ConnectionResetError):
        assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    silent.pop()[1].close()
    await eventually(lambda: sum(service.metrics.connections().values()) == 1)
    async with session(service.url), session(service.url), session(service.url):
        pass
    silent.pop()[1].close()


async def test_ready(service: Service) -> None:
    """Once a sequence went through the model, the service is ready and reports its state."""
    async with connect(service.url):
        state = await state_of(service)
    assert state["service"] == "streamer"
    assert state["ready"] is True
    assert b"streamer_ready 1.0" in service.metrics.exposition()


async def test_ready_is_not_believed_for_long(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old success does not count as ready."""
    monkeypatch.setattr(prober, "FRESH_S", 0.0)
    assert (await state_of(service))["ready"] is False


async def test_metrics(service: Service) -> None:
    """The metrics count what happened."""
    await recognise(service.url, SPOKEN[:200_000])
    # The client has its last event a moment before the session has ended.
    await eventually(lambda: 'sessions_ended_total{reason="done"} 1.0' in service.metrics.exposition().decode())
    await eventually(lambda: "\nstreamer_sessions 0.0" in service.metrics.exposition().decode())
    exposition = service.metrics.exposition().decode()
    assert "streamer_sessions_opened_total 1.0" in exposition
    assert "streamer_received_seconds_total 6.25" in exposition
    assert 'streamer_messages_total{type="final"}' in exposition


async def test_stop_gives_the_finals(triton: TritonServer) -> None:
    """At the end of the service an open session gets its words, then the reason."""
    async with serving(triton) as service:
        websocket = await connect(service.url)
        await websocket.send(START)
        await websocket.send(SPOKEN[:200_000])
        while (await receive(websocket))["type"] != "partial":
            pass
        reading = asyncio.create_task(rest(websocket))
    events = await reading
    assert text(events)
    assert (events[-1]["code"], websocket.close_code) == ("shutting_down", 1013)
    assert "new session in 5 s" in (websocket.close_reason or "")
    await no_streams(triton)


async def test_grace(triton: TritonServer) -> None:
    """With some grace a session may end on its own, while no other begins."""
    service = serving(triton, grace=20.0)
    await service.__aenter__()
    async with session(service.url) as websocket:
        leaving = asyncio.create_task(service.__aexit__(None, None, None))
        await asyncio.sleep(0.1)
        async with connect(service.url) as late:
            await late.send(START)
            (error,) = await rest(late)
            assert (error["code"], late.close_code) == ("shutting_down", 1013)
        assert (await state_of(service))["ready"] is False
        await websocket.send(SPOKEN[:200_000])
        await websocket.send('{"type":"stop"}')
        events = await rest(websocket)
        assert (events[-1]["type"], websocket.close_code) == ("done", 1000)
    await asyncio.wait_for(leaving, 60)


async def test_cancelled(triton: TritonServer) -> None:
    """Sessions that are cut off by cancellation end their sequences too."""
    async with serving(triton) as service:
        async with session(service.url) as websocket:
            await websocket.send(SPOKEN[:400_000])
            await receive(websocket)
            pumps = [task for task in asyncio.all_tasks() if "pump" in repr(task.get_coro())]
            assert len(pumps) == 1
            pumps[0].cancel()
            await rest(websocket)
            assert websocket.close_code == 1011
        await no_streams(triton)
        assert "\nstreamer_sessions 0.0" in service.metrics.exposition().decode()


async def test_port_taken() -> None:
    """A port in use is named in one sentence."""
    first = BridgeServer("127.0.0.1", 0, models_at(), Metrics())
    await first.start()
    port = int(first.url.split(":")[2].split("/")[0])
    try:
        with pytest.raises(PortError, match=rf"^Port {port} of 127\.0\.0\.1 is already in use"):
            await BridgeServer("127.0.0.1", port, models_at(), Metrics()).start()
    finally:
        await first.stop()


async def test_wrong_host() -> None:
    """A host that is not of this machine is named."""
    with pytest.raises(PortError, match=r"192\.0\.2\.1"):
        await BridgeServer("192.0.2.1", 0, models_at(), Metrics()).start()


async def test_not_ready_yet() -> None:
    """Before the recogniser is ready, a session is refused with the seconds to wait."""
    starting = BridgeServer("127.0.0.1", 0, models_at(), Metrics())
    await starting.start()
    try:
        async with connect(starting.url) as websocket:
            await websocket.send(START)
            (error,) = await rest(websocket)
            assert (error["code"], websocket.close_code) == ("not_ready", 1013)
    finally:
        await starting.stop()


async def state_of(service: Service) -> dict[str, object]:
    host, port = service.url.split("/")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    state: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return state


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
