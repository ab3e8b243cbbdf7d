"""Websockets over real sockets, tested with the library's client and with raw bytes."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.http import channel, websocket
from streamer.bridge.http.channel import UNSENT_HIGH
from streamer.bridge.http.messages import Messages
from streamer.bridge.http.routes import Endpoint, Route
from streamer.bridge.http.websocket import FRAMES_HIGH, ConnectionEnded, NotRead, WebSocket
from streamer.bridge.session.outbox import Numbered
from streamer.wire.errors import CloseCode
from streamer.wire.events import Heard
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.http.reader import HANDSHAKE, Peer, Port, port

LARGEST = 1_000_000
READ = 256 * 1024  # asyncio takes so much at a time
SLICE = 16 * 1024


class Handler:
    """Runs a test's function for each websocket, and keeps the last one."""

    def __init__(self) -> None:
        self.act: Callable[[WebSocket], Awaitable[None]] = self.echo
        self.websocket: WebSocket | None = None
        self.ended = asyncio.Event()

    async def __call__(self, websocket: WebSocket) -> None:
        self.websocket = websocket
        self.ended.clear()
        try:
            await self.act(websocket)
        finally:
            self.ended.set()

    async def echo(self, websocket: WebSocket) -> None:
        while True:
            await websocket.say(await websocket.receive())

    async def idle(self, websocket: WebSocket) -> None:
        """Receive nothing until the end."""
        await asyncio.wait({websocket._lost})


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
async def opened(handler: Handler) -> AsyncIterator[Port]:
    async with port(routes(handler)) as opened:
        yield opened


def routes(handler: Handler) -> dict[str, Route]:
    return {
        "/socket": Route(websocket=Endpoint(handler, LARGEST, ("streamer",))),
        "/narrow": Route(websocket=Endpoint(handler, 10)),
    }


def masked(opcode: Opcode, data: bytes) -> bytes:
    return Frame(opcode, data).serialize(mask=True)


async def raw(opened: Port, data: bytes = b"") -> Peer:
    """Open a websocket without a library; these bytes follow the request at once."""
    peer = await opened.connect(HANDSHAKE + data)
    answer = await peer.reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"Server: streamer\r\n" in answer
    return peer


def stop_reading(peer: Peer) -> None:
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]


def narrow(peer: Peer) -> None:
    """Make the kernel's buffer for this client small."""
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 4 * SLICE)


def unsent(peer: Peer) -> int:
    """Return how many bytes of a client the kernel does not take any more."""
    return int(peer.writer.transport.get_write_buffer_size())


async def test_messages(opened: Port) -> None:
    """Texts and bytes, short and long, in fragments or not, arrive unchanged in both directions."""
    async with connect(f"ws://127.0.0.1:{opened.number}/socket", subprotocols=["streamer"]) as client:  # type: ignore[list-item]
        assert client.subprotocol == "streamer"
        assert client.protocol.extensions == []
        for message in ("", b"", "né", b"\0" * 70_000, bytes(LARGEST)):
            await client.send(message)
            assert await client.recv() == message
        await client.send(["frag", "men", "ts"])
        assert await client.recv() == "fragments"
    await opened.until(websocket=0)
    assert (opened.failed, opened.dropped) == (0, [])


async def test_limits_by_path(opened: Port) -> None:
    """Each path has its own limit for messages."""
    async with connect(f"ws://127.0.0.1:{opened.number}/narrow") as client:
        await client.send(b"0123456789")
        assert await client.recv() == b"0123456789"
        await client.send(b"0123456789a")
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1009


async def test_frames_right_behind_the_request(opened: Port) -> None:
    """A client may send frames without waiting for the answer to its request."""
    peer = await raw(opened, masked(Opcode.TEXT, b"at once"))
    assert await peer.reader.readexactly(9) == b"\x81\x07at once"
    peer.close()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HANDSHAKE.replace(b"/socket", b"/nothing"), b"404"),
        (HANDSHAKE.replace(b"Upgrade: websocket", b"Upgrade: h2c"), b"426"),
        (HANDSHAKE.replace(b": 13", b": 12"), b"400"),
        (HANDSHAKE.replace(b"GET", b"POST"), b"405"),
        (HANDSHAKE.replace(b"HTTP/1.1", b"HTTP/1.0"), b"400"),
        (HANDSHAKE.replace(b"Host: a", b"Host: a\r\nContent-Length: 2") + b"ab", b"400"),
        (b"GET /socket HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
    ],
)
async def test_refused_handshakes(opened: Port, data: bytes, status: bytes) -> None:
    """Refused handshakes get an answer of plain HTTP."""
    peer = await opened.connect(data)
    answer = await peer.answer()
    assert answer.status == int(status)
    assert answer.error["message"]
    peer.close()


async def test_who_closes(opened: Port, handler: Handler) -> None:
    """Afterwards it is known which side closed, and why."""
    client = await connect(f"ws://127.0.0.1:{opened.number}/socket")
    await client.close()
    await handler.ended.wait()
    ended = handler.websocket
    assert ended is not None
    assert (ended.goodbye, ended.agreed, ended.fault) == (True, True, "")
    assert client.close_code == 1000

    client = await connect(f"ws://127.0.0.1:{opened.number}/socket")
    await client.close(4999)
    await handler.ended.wait()
    assert handler.websocket is not None
    assert (handler.websocket.goodbye, handler.websocket.agreed) == (False, True)

    client = await connect(f"ws://127.0.0.1:{opened.number}/socket")
    await client.send(b"\xff", text=True)
    with pytest.raises(ConnectionClosed):
        await client.recv()
    await handler.ended.wait()
    assert client.close_code == 1007
    assert handler.websocket.fault == "not_utf8"

    client = await connect(f"ws://127.0.0.1:{opened.number}/socket")
    client.transport.abort()
    await asyncio.sleep(0)
    await handler.ended.wait()
    assert (handler.websocket.goodbye, handler.websocket.agreed, handler.websocket.fault) == (False, False, "")


async def test_our_close(opened: Port, handler: Handler) -> None:
    """The client answers our close after data that it had already sent, which is discarded."""

    async def act(websocket: WebSocket) -> None:
        await websocket.receive()
        closing = websocket.close(CloseCode.TRY_LATER, "come again")
        assert websocket.close(CloseCode.DONE, "") is closing
        assert websocket.closing
        assert not websocket.closed
        await asyncio.sleep(0)
        with pytest.raises(ConnectionEnded):
            await websocket.say("more")
        await websocket.until_closed()
        assert websocket.closed
        assert websocket.agreed

    handler.act = act
    async with connect(f"ws://127.0.0.1:{opened.number}/socket") as client:
        with suppress(ConnectionClosed):
            for _ in range(200):
                await client.send(bytes(50_000))
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert (client.close_code, client.close_reason) == (1013, "come again")
    assert opened.failed == 0


async def test_a_handler_that_returns(opened: Port, handler: Handler) -> None:
    """When a handler returns, its websocket is closed normally."""

    async def act(websocket: WebSocket) -> None:
        await websocket.say("hello")

    handler.act = act
    async with connect(f"ws://127.0.0.1:{opened.number}/socket") as client:
        assert await client.recv() == "hello"
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1000


@pytest.mark.fails_inside
async def test_a_handler_that_fails(opened: Port, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    """When a handler fails, the client is told that the service failed, and the log has the traceback."""

    async def act(websocket: WebSocket) -> None:
        raise RuntimeError("a fault of ours")

    handler.act = act
    with caplog.at_level(logging.ERROR, logger="streamer"):
        async with connect(f"ws://127.0.0.1:{opened.number}/socket") as client:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1011
    assert "RuntimeError: a fault of ours" in caplog.text
    assert opened.failed == 1


@pytest.mark.fails_inside
async def test_a_fault_within(
    opened: Port, handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error of the library is logged and counted once."""

    def broken(self: Messages, frame: Any) -> None:
        raise RuntimeError("a fault of somebody's")

    monkeypatch.setattr(Messages, "_assembled", broken)
    with caplog.at_level(logging.ERROR, logger="streamer"):
        async with connect(f"ws://127.0.0.1:{opened.number}/socket") as client:
            await client.send("a")
            await client.send("b")
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1011
    assert caplog.text.count("RuntimeError: a fault of somebody's") == 1
    assert opened.failed == 1


async def test_pings(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings are sent at intervals, and those of a client are answered."""
    monkeypatch.setattr(websocket, "PING_EVERY_S", 0.05)
    peer = await raw(opened, masked(Opcode.PING, b"anybody?"))
    assert await peer.reader.readexactly(10) == b"\x8a\x08anybody?"
    assert await asyncio.wait_for(peer.reader.readexactly(4), 60) == b"\x89\x00\x89\x00"
    peer.close()


async def test_what_is_owed_to_who_cannot_be_understood(opened: Port, handler: Handler) -> None:
    """After invalid input a handler may still send; further input is discarded, and the handler chooses the close."""

    async def act(websocket: WebSocket) -> None:
        assert await websocket.receive() == b"first"
        with pytest.raises(ConnectionEnded):
            await websocket.receive()
        assert websocket.unintelligible
        assert websocket.fault == "too_large"
        websocket.ignore_rest()
        assert not websocket.unintelligible
        for number in range(100):
            await websocket.say(f"{number:0100d}")
        closing = websocket.close(CloseCode.DONE, "")
        with pytest.raises(ConnectionEnded):
            await websocket.receive()
        await closing

    handler.act = act
    peer = await raw(opened, masked(Opcode.BINARY, b"first") + b"\x82\xff" + bytes([127] * 12) + bytes(3_000_000))
    told = await peer.rest()
    assert told.endswith(b"%0100d\x88\x02\x03\xe8" % 99)
    assert told.count(b"\x81\x64") == 100
    peer.close()
    await handler.ended.wait()
    assert (opened.failed, opened.dropped) == (0, [])


# Bounds


async def test_pings_of_who_does_not_read(opened: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """If pongs are not read, the socket is not read any further: no memory grows, and the client is cut off later."""
    monkeypatch.setattr(channel, "STALL_LIMIT_S", 1.0)
    peer = await raw(opened)
    stop_reading(peer)
    pings, sent = masked(Opcode.PING, bytes(125)) * 8_000, 0
    gc.collect()
    before = psutil.Process().memory_info().rss
    served = handler.websocket
    assert served is not None
    while not served.lost:
        if unsent(peer) < len(pings):
            peer.send(pings)
            sent += len(pings)
        assert served.unsent <= UNSENT_HIGH + 2 * SLICE
        assert len(served._unread) <= READ
        await asyncio.sleep(0)
    assert sent < 24_000_000
    assert psutil.Process().memory_info().rss - before < 24_000_000
    assert served.fault == "not_read"
    assert opened.dropped == ["not_read"]
    await handler.ended.wait()
    peer.writer.transport.abort()


async def test_pongs_go_on_when_they_are_read(opened: Port, handler: Handler) -> None:
    """No pong is missing, however late it is read."""
    peer = await raw(opened)
    stop_reading(peer)
    narrow(peer)
    peer.send(b"".join(masked(Opcode.PING, b"%0125d" % number) for number in range(8_000)))
    served = handler.websocket
    assert served is not None
    while served.unsent < UNSENT_HIGH:  # noqa: ASYNC110 nothing tells
        await asyncio.sleep(0.01)
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for number in range(8_000):
        assert (await peer.reader.readexactly(127))[2:] == b"%0125d" % number
    peer.close()


@pytest.mark.parametrize("size", [1, 1000, 100_000])
async def test_messages_of_who_is_not_listened_to(opened: Port, handler: Handler, size: int) -> None:
    """A few messages wait, of any size; the rest stays with the client, and none is lost."""
    go_on, heard = asyncio.Event(), 0

    async def act(websocket: WebSocket) -> None:
        nonlocal heard
        await go_on.wait()
        while True:
            assert len(await websocket.receive()) == size
            heard += 1

    handler.act = act
    number = max(30, 2_000_000 // (size + 8))
    peer = await raw(opened)
    narrow(peer)
    peer.send(masked(Opcode.BINARY, bytes(size)) * number)
    before = -1
    while unsent(peer) != before:
        before = unsent(peer)
        await asyncio.sleep(0.05)
    served = handler.websocket
    assert served is not None
    assert before > 0
    assert len(served._messages) <= FRAMES_HIGH + SLICE // 6
    assert len(served._unread) <= READ
    go_on.set()
    while heard < number:  # noqa: ASYNC110 nothing tells
        await asyncio.sleep(0.01)
    peer.close()


async def test_who_does_not_read_what_is_sent(opened: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client does not read, sending waits and then fails; closing has its limit, too."""
    monkeypatch.setattr(websocket, "SEND_LIMIT_S", 0.3)
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.2)
    told: list[Numbered] = []

    async def act(websocket: WebSocket) -> None:
        with pytest.raises(NotRead):
            await websocket.send([Numbered(1, Heard(0), "a" * 10_000)] * 10_000, told.append)
        assert websocket.unsent < UNSENT_HIGH + 11_000
        await websocket.close(CloseCode.IDLE, "results were not read")

    handler.act = act
    peer = await raw(opened)
    stop_reading(peer)
    await asyncio.wait_for(handler.ended.wait(), 60)
    await opened.until(websocket=0)
    assert told
    assert opened.failed == 0
    peer.close()


async def test_interrupted(opened: Port, handler: Handler) -> None:
    """An interrupted send stops waiting for room."""
    told: list[Numbered] = []

    async def act(websocket: WebSocket) -> None:
        asyncio.get_running_loop().call_later(0.2, websocket.interrupt)
        while await websocket.send([Numbered(1, Heard(0), "a" * 10_000)] * 10, told.append):
            pass
        assert await websocket.send([], told.append)
        websocket.abort()

    handler.act = act
    peer = await raw(opened)
    stop_reading(peer)
    await asyncio.wait_for(handler.ended.wait(), 60)
    peer.close()


async def test_who_takes_no_part_in_a_close(opened: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not take part in a close is cut off, whichever side began."""
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.1)

    async def act(websocket: WebSocket) -> None:
        await websocket.close(CloseCode.DONE, "")

    for begun in (handler.echo, act):
        handler.act = begun
        peer = await raw(opened, masked(Opcode.CLOSE, b"") if begun == handler.echo else b"")
        assert (await peer.rest())[:1] == b"\x88"
        await opened.until(websocket=0)
        peer.close()


async def test_dropped_while_it_closes(opened: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that is under way is not waited for twice."""
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.2)

    async def act(websocket: WebSocket) -> None:
        closing = websocket.close(CloseCode.DONE, "")
        await asyncio.sleep(0)
        await websocket.drop(CloseCode.FAILED, "the service failed")
        assert closing.cancelled()
        assert websocket.lost

    handler.act = act
    peer = await raw(opened)
    assert await peer.rest() == b"\x88\x02\x03\xe8"
    await handler.ended.wait()
    assert opened.failed == 0
    peer.close()


async def test_what_came_before_a_loss(opened: Port, handler: Handler) -> None:
    """Messages that arrived before a loss are all received, and then the end."""
    go_on, heard = asyncio.Event(), 0

    async def act(websocket: WebSocket) -> None:
        nonlocal heard
        await go_on.wait()
        while True:
            await websocket.receive()
            heard += 1

    handler.act = act
    peer = await raw(opened, masked(Opcode.BINARY, bytes(10)) * 2000)
    await asyncio.sleep(0.05)
    assert handler.websocket is not None
    handler.websocket.abort()
    peer.close()
    await asyncio.sleep(0)
    go_on.set()
    await handler.ended.wait()
    assert heard == 2000


async def test_over_tls(handler: Handler, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS messages, closes by either side, and the bound for pings are the same."""
    monkeypatch.setattr(channel, "STALL_LIMIT_S", 0.5)
    certificate = Certificate(authority.chain, authority.key)
    async with port(routes(handler), certificate=certificate) as opened:
        url = f"wss://localhost:{opened.number}"
        async with connect(f"{url}/socket", ssl=authority.trusted) as client:
            await client.send(bytes(LARGEST))
            assert await client.recv() == bytes(LARGEST)
        async with connect(f"{url}/narrow", ssl=authority.trusted) as client:
            await client.send(bytes(500_000))
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1009
        handler.act = handler.idle
        reader, writer = await asyncio.open_connection(
            "localhost", opened.number, ssl=authority.trusted, ssl_handshake_timeout=5
        )
        peer = Peer(reader, writer)
        peer.send(HANDSHAKE)
        await reader.readuntil(b"\r\n\r\n")
        stop_reading(peer)
        served = handler.websocket
        assert served is not None
        pings = masked(Opcode.PING, bytes(125)) * 8_000
        while not served.lost:
            if unsent(peer) < len(pings):
                with suppress(ConnectionError, ssl.SSLError):
                    peer.send(pings)
            assert served.unsent <= UNSENT_HIGH + 2 * SLICE
            assert len(served._unread) <= 2 * READ
            await asyncio.sleep(0)
        assert opened.dropped == ["not_read"]
        peer.writer.transport.abort()
