"""Every hop has its marks: a real service, a real Triton behind a proxy that can pause, and clients in a hurry."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge import driver, resumption, sessions
from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.http import listener
from streamer.bridge.http import websocket as http_websocket
from streamer.bridge.http.channel import UNSENT_HIGH
from streamer.bridge.http.listener import RECEIVE_BUFFER
from streamer.bridge.http.websocket import FRAMES_HIGH
from streamer.bridge.service import Service
from streamer.bridge.session.backlog import BYTES_PER_S, HIGH_MARK, PORTION
from streamer.bridge.session.session import LIVE_MARK
from streamer.bridge.triton.server import TritonServer
from streamer.testing.faulty_proxy import FaultyProxy
from tests.bridge.access.bare_port import ALICE
from tests.bridge.service_client import SPOKEN, Event, receive, recognise, rest, said, serving, session, text
from tests.triton_processes import no_streams

FRAME = 16 * 1024
STEP = 320 * BYTES_PER_S // 1000
SMALL = 4096
# The kernel doubles the requested size, and the client's library has a buffer too.
ON_THE_WAY = 2 * RECEIVE_BUFFER + 2 * SMALL + 128 * 1024
FLUSH = '{"type":"flush"}'
ANSWERS = 20


@pytest.fixture
async def way(triton: TritonServer) -> AsyncIterator[FaultyProxy]:
    """Provide a proxy in front of the Triton."""
    way = FaultyProxy(lambda: triton.grpc_address)
    await way.open()
    yield way
    await way.close()
    await no_streams(triton)


def figure(service: Service, sample: str) -> float:
    """Return one sample of the metrics."""
    found = re.search(rf"^{re.escape(sample)} (\S+)$", service.metrics.exposition().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_a_file_is_read_as_fast_as_it_is_computed(way: FaultyProxy, triton: TritonServer) -> None:
    """While nothing is computed, marks stop a client that sends at full speed; then no byte is missing."""
    audio = (3 * SPOKEN)[: 37 * BYTES_PER_S]  # more than all marks and buffers on the way hold
    sent = 0

    async def send(websocket: ClientConnection) -> None:
        nonlocal sent
        for place in range(0, len(audio), FRAME):
            await websocket.send(audio[place : place + FRAME])
            sent += FRAME
        await websocket.send('{"type":"stop"}')

    async with Service(way.address, port=0) as service, narrow(service.url) as websocket:
        assert (await receive(websocket))["type"] == "ready"
        way.stall()
        sending, before = asyncio.create_task(send(websocket)), -1
        await asyncio.wait_for(_until(service, "streamer_backlog_bytes", HIGH_MARK - PORTION + 1), 60)
        while sent > before:
            before = sent
            await asyncio.sleep(0.5)
        waiting = figure(service, "streamer_backlog_bytes")
        assert HIGH_MARK - PORTION < waiting <= HIGH_MARK + FRAME
        assert sent - waiting <= PORTION + FRAMES_HIGH * FRAME + ON_THE_WAY
        assert sent < len(audio)
        assert figure(service, 'streamer_lag_max_seconds{pace="ahead"}') >= HIGH_MARK / BYTES_PER_S
        way.resume()
        events = await rest(websocket)
        await sending
        # It was always behind, so that several steps went into one request.
        assert figure(service, "streamer_answer_seconds_count") < 0.5 * len(audio) / STEP
    assert events[-1] == {**events[-1], "type": "done", "audio_ms": len(audio) // 32}
    async with serving(triton) as service:
        assert lasting(events) == lasting(await recognise(service.url, audio, [STEP] * (len(audio) // STEP)))


def lasting(events: list[Event]) -> list[Event]:
    return [event for event in said(events) if event["type"] == "final"]


async def test_live_beyond_its_bound(way: FaultyProxy) -> None:
    """A live session is always read; above its mark it is closed with 4029, and no other session is."""
    async with Service(way.address, port=0) as service, session(service.url) as other:
        async with session(service.url, live=True) as websocket:
            way.stall()
            for _ in range(LIVE_MARK // FRAME):
                await websocket.send(bytes(FRAME))
            await websocket.send('{"type":"keepalive"}')
            await asyncio.wait_for(_until(service, "streamer_backlog_bytes", LIVE_MARK - PORTION - FRAME), 60)
            assert websocket.close_code is None
            await websocket.send(bytes(PORTION + FRAME))
            (error,) = [event for event in await rest(websocket) if event["type"] == "error"]
            assert (error["code"], websocket.close_code) == ("too_fast", 4029)
        way.resume()
        await other.send(SPOKEN[:200_000])
        await other.send('{"type":"stop"}')
        assert text(await rest(other))


async def _until(service: Service, sample: str, least: float) -> None:
    while figure(service, sample) < least:  # noqa: ASYNC110 nothing tells when a metric changes
        await asyncio.sleep(0.05)


async def test_who_does_not_read_delays_nobody(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is kept for a client that does not read, and other sessions get their answers meanwhile."""
    monkeypatch.setattr(http_websocket, "SEND_LIMIT_S", 1e6)
    monkeypatch.setattr(listener, "SEND_BUFFER", SMALL)
    monkeypatch.setattr(driver, "FLUSHES_PER_S", 1e6)
    async with serving(triton) as service, session(service.url) as other:
        await answers(other)
        async with narrow(service.url) as websocket, flooding(websocket):
            # A client that does not take its messages is blocked; others get theirs at once.
            await asyncio.wait_for(_until(service, "streamer_outgoing_messages", 1), 60)
            # It is blocked for good, and not only behind on a busy machine, if nothing has moved for a while.
            told, unmoved = -1.0, 0
            while unmoved < 10:
                await asyncio.sleep(0.2)
                before, told = told, figure(service, 'streamer_messages_total{type="flushed"}')
                blocked = told == before and figure(service, "streamer_outgoing_messages") >= 1
                unmoved = unmoved + 1 if blocked else 0
            await answers(other)
            assert figure(service, "streamer_outgoing_messages") >= 1
            assert (told - ANSWERS) * len('{"type":"flushed","n":1,"audio_ms":0}') < UNSENT_HIGH + 64 * 1024
        await answers(other)
    await no_streams(triton)


async def test_who_does_not_read_is_ended(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its limit, the session of a client that does not read ends."""
    monkeypatch.setattr(http_websocket, "SEND_LIMIT_S", 0.5)
    monkeypatch.setattr(listener, "SEND_BUFFER", SMALL)
    monkeypatch.setattr(driver, "FLUSHES_PER_S", 1e6)
    async with serving(triton) as service, narrow(service.url) as websocket, flooding(websocket):
        await asyncio.wait_for(_until(service, 'streamer_sessions_ended_total{reason="not_read"}', 1), 60)
    await no_streams(triton)


async def test_who_may_come_back_is_bounded(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limited number of sessions waits for clients; a further one ends with its connection."""
    monkeypatch.setattr(resumption, "MOST_PARKED", 2)
    async with serving(triton) as service:
        for away, ended in ((1, 0), (2, 0), (2, 1)):
            async with session(service.url) as websocket:
                websocket.transport.abort()
            await asyncio.wait_for(
                _until(service, 'streamer_sessions_by_state{protocol="native",state="parked"}', away), 60
            )
            await asyncio.wait_for(_until(service, 'streamer_sessions_ended_total{reason="vanished"}', ended), 60)
        assert figure(service, 'streamer_sessions_by_state{protocol="native",state="parked"}') == 2


async def test_who_wants_to_come_back_is_bounded(
    triton: TritonServer, keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limited number of connections that may only resume is admitted; a further one is refused at once."""
    monkeypatch.setattr(sessions, "MOST_RETURNING", 1)
    access, alice = AccessRules(keys, quotas=QuotaLimits(per_key=1)), {"Authorization": f"Bearer {ALICE.secret}"}
    async with (
        serving(triton, policy=PortPolicy(access)) as service,
        connect(service.url, additional_headers=alice) as first,
    ):
        await first.send(json.dumps({"type": "start"}))
        assert (await receive(first))["type"] == "ready"
        async with (
            connect(service.url, additional_headers=alice) as second,
            connect(service.url, additional_headers=alice) as third,
        ):
            (error,) = await rest(third)
            assert (error["code"], third.close_code) == ("too_many_sessions", 1013)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(second.recv(), 0.5)


async def answers(websocket: ClientConnection) -> None:
    """Send some steps, and wait until each is computed."""
    for _ in range(ANSWERS):
        await websocket.send(SPOKEN[:STEP])
        await websocket.send(FLUSH)
        while (await receive(websocket))["type"] != "flushed":
            pass


@asynccontextmanager
async def narrow(url: str) -> AsyncIterator[ClientConnection]:
    """Open a session of a client with very small buffers."""
    slow = socket.socket()
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        slow.setsockopt(socket.SOL_SOCKET, buffer, SMALL)
    slow.setblocking(False)
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    await asyncio.get_running_loop().sock_connect(slow, (place.hostname, place.port))
    # The library reads until its queue is full, so the queue is made short and is not emptied.
    async with connect(url, sock=slow, compression=None, max_queue=1) as websocket:
        await websocket.send(json.dumps({"type": "start"}))
        yield websocket


@asynccontextmanager
async def flooding(websocket: ClientConnection) -> AsyncIterator[None]:
    """Send flushes without end and read nothing; at the end the connection is cut off."""

    async def flood() -> None:
        with suppress(ConnectionClosed):  # the service may end it
            while True:
                await websocket.send(FLUSH)
                await asyncio.sleep(0.0005)  # it shares its loop with the service

    task = asyncio.create_task(flood())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        websocket.transport.abort()
