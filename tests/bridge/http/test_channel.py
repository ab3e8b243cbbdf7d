"""Both directions of a connection: who reads no answers is not read. Connections are counted by state."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
from contextlib import suppress

import psutil
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode

from streamer.base.events import Acknowledgement
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.http import channel, connection, websocket
from streamer.bridge.http.channel import ANSWERING, IDLE, OPENING, UNSENT_HIGH, Channel, ConnectionCounts
from streamer.bridge.http.websocket import FRAMES_HIGH, NotRead, WebSocket
from streamer.bridge.session.messages import Numbered
from streamer.wire.errors import CloseCode
from tests.bridge.access.certificate_authority import Authority
from tests.bridge.http.reader import HANDSHAKE, Peer, Port, happens, port
from tests.bridge.http.request_handlers import Handlers
from tests.bridge.http.websocket_handler import (
    LARGEST_MESSAGE,
    SLICE,
    Handler,
    masked,
    narrow,
    raw,
    routes,
    stop_reading,
    unsent,
    unwritten,
)

READ = 256 * 1024  # asyncio takes so much at a time
RESET = struct.pack("ii", 1, 0)  # the value of SO_LINGER with which a close is a reset

# Requests


async def test_a_body_waits_for_who_reads_it(opened: Port, handlers: Handlers) -> None:
    """While a handler does not read, at most a mark is taken from the socket; later not a byte is missing."""
    size = 20_000_000
    peer = await opened.connect(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    peer.writer.write(bytes(size))
    before = -1
    while (waiting := peer.writer.transport.get_write_buffer_size()) != before:
        before = waiting
        await asyncio.sleep(0.05)
    [serving] = opened.listener._connections.values()
    assert len(handlers.pieces) == 1
    assert len(serving._unread) <= connection.UNREAD_MARK + 256 * 1024
    assert waiting > size / 2
    handlers.go_on.set()
    assert (await peer.answer()).body == b"%d\n" % size
    peer.close()


async def test_a_body_of_who_has_gone(opened: Port, handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler ends soon after its client has gone, although the socket still has much of the body to read."""
    monkeypatch.setattr(connection, "LOOK_EVERY_S", 0.05)
    size = 1_500_000  # more than is taken from the socket, and less than the kernel holds
    with socket.create_connection(("127.0.0.1", opened.number)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        head = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
        await asyncio.to_thread(client.sendall, head + bytes(size))
        await asyncio.wait_for(handlers.begun.wait(), 60)
    await opened.until(answering=0)
    assert len(handlers.pieces) == 1


async def test_the_last_answer_is_read_late(opened: Port, handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an answer is still to be written when the connection ends. It arrives, and nothing fails."""
    monkeypatch.setattr(connection, "LINGER_S", 0.0)
    size, small = 400_000, 4096
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, small)  # so that the end waits in the service
    client.connect(("127.0.0.1", opened.number))
    client.setblocking(False)
    await opened.until(opening=1)
    [serving] = opened.listener._connections.values()
    assert serving._transport is not None
    serving._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, small)
    loop, content = asyncio.get_running_loop(), b""
    await loop.sock_sendall(client, b"GET /stream?%d HTTP/1.0\r\nHost: a\r\n\r\n" % (size // 10_000))
    while not handlers.cancelled.is_set():  # until the whole answer is given to asyncio
        content += await asyncio.wait_for(loop.sock_recv(client, small // 4), 60)
    await happens(serving._transport.is_closing)
    assert serving._transport.get_write_buffer_size() > 0
    while piece := await asyncio.wait_for(loop.sock_recv(client, READ), 60):
        content += piece
    assert len(content.partition(b"\r\n\r\n")[2]) == size
    await happens(lambda: not opened.listener._connections)
    client.close()
    assert (opened.failed, opened.dropped) == (0, [])


async def test_who_is_read_slowly_stays(opened: Port, handlers: Handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose body waits is not cut off while it is there."""
    looks, look = asyncio.Semaphore(0), channel.ending_of

    def counted(transport: asyncio.Transport) -> channel.Ending:
        looks.release()
        return look(transport)

    monkeypatch.setattr(connection, "ending_of", counted)
    monkeypatch.setattr(connection, "LOOK_EVERY_S", 0.01)
    size = 1_500_000
    peer = await opened.connect(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    peer.writer.write(bytes(size))
    for _ in range(20):
        await asyncio.wait_for(looks.acquire(), 60)
    handlers.go_on.set()
    assert (await peer.answer()).body == b"%d\n" % size
    peer.close()


async def test_an_end_is_seen_before_all_is_read() -> None:
    """That the other side has ended, or is lost, is seen although data of it was not read."""
    async with port({}) as opened:
        endings = []
        for reset in (False, True):
            peer = await opened.connect(b"x" * 1000)
            await opened.until(opening=1)
            [serving] = opened.listener._connections.values()
            transport = serving._transport
            assert transport is not None
            transport.pause_reading()
            endings.append(channel.ending_of(transport))
            if reset:
                peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                peer.writer.transport.abort()
            else:
                peer.writer.write_eof()
            for _ in range(6000):
                if (ending := channel.ending_of(transport)) is not channel.Ending.NONE:
                    break
                await asyncio.sleep(0.01)
            endings.append(ending)
            transport.abort()
            peer.close()
            await opened.until(opening=0)
        assert endings == [channel.Ending.NONE, channel.Ending.ENDED, channel.Ending.NONE, channel.Ending.LOST]


async def test_an_answer_waits_for_who_reads_it(opened: Port, handlers: Handlers) -> None:
    """An answer is made no faster than it is read, and not at all if the client has gone."""
    peer = await opened.connect(b"GET /stream?10000 HTTP/1.1\r\nHost: a\r\n\r\n")
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    before = -1
    while handlers.sent != before:
        before = handlers.sent
        await asyncio.sleep(0.05)
    assert handlers.sent < 1000
    peer.writer.transport.abort()
    await asyncio.wait_for(handlers.cancelled.wait(), 60)
    await opened.until(answering=0)


async def test_who_does_not_read_its_answer(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read its answer is cut off after a while."""
    monkeypatch.setattr(connection, "ANSWER_LIMIT_S", 0.2)
    peer = await opened.connect(b"GET /stream?10000 HTTP/1.1\r\nHost: a\r\n\r\n")
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await opened.until(answering=1)
    await opened.until(answering=0)
    assert opened.dropped == ["not_read"]
    peer.close()


async def test_many_requests_of_who_does_not_read(opened: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """If answers are not read, no more requests are read."""
    monkeypatch.setattr(connection, "ANSWER_LIMIT_S", 2.0)
    peer = await opened.connect()
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    request, sent = b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n" * 1000, 0
    while peer.writer.transport.get_write_buffer_size() < 1_000_000:
        peer.send(request)
        sent += len(request)
        await asyncio.sleep(0)
        for serving in opened.listener._connections.values():
            assert unwritten(serving) < 64 * 1024
            assert len(serving._unread) <= connection.UNREAD_MARK + 256 * 1024
        assert sent < 30_000_000
    peer.writer.transport.abort()


# Websockets


async def test_pings_of_who_does_not_read(sockets: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """If pongs are not read, the socket is not read any further: no memory grows, and the client is cut off later."""
    monkeypatch.setattr(channel, "STALL_LIMIT_S", 1.0)
    peer = await raw(sockets)
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
        assert unwritten(served) <= UNSENT_HIGH + 2 * SLICE
        assert len(served._unread) <= READ
        await asyncio.sleep(0)
    assert sent < 24_000_000
    assert psutil.Process().memory_info().rss - before < 24_000_000
    assert served.fault == "not_read"
    assert sockets.dropped == ["not_read"]
    await handler.ended.wait()
    peer.writer.transport.abort()


async def test_pongs_go_on_when_they_are_read(sockets: Port, handler: Handler) -> None:
    """No pong is missing, however late it is read."""
    peer = await raw(sockets)
    stop_reading(peer)
    narrow(peer)
    peer.send(b"".join(masked(Opcode.PING, b"%0125d" % number) for number in range(8_000)))
    served = handler.websocket
    assert served is not None
    while unwritten(served) < UNSENT_HIGH:  # noqa: ASYNC110 nothing tells
        await asyncio.sleep(0.01)
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for number in range(8_000):
        assert (await peer.reader.readexactly(127))[2:] == b"%0125d" % number
    peer.close()


@pytest.mark.parametrize("size", [1, 1000, 100_000])
async def test_messages_of_who_is_not_listened_to(sockets: Port, handler: Handler, size: int) -> None:
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
    peer = await raw(sockets)
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


async def test_who_does_not_read_what_is_sent(sockets: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the client does not read, sending waits and then fails; closing has its limit, too."""
    monkeypatch.setattr(websocket, "SEND_LIMIT_S", 0.3)
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.2)
    told: list[Numbered] = []

    async def act(websocket: WebSocket) -> None:
        with pytest.raises(NotRead):
            await websocket.send([Numbered(1, Acknowledgement(0), "a" * 10_000)] * 10_000, told.append)
        assert unwritten(websocket) < UNSENT_HIGH + 11_000
        await websocket.close(CloseCode.IDLE, "results were not read")

    handler.act = act
    peer = await raw(sockets)
    stop_reading(peer)
    await asyncio.wait_for(handler.ended.wait(), 60)
    await sockets.until(websocket=0)
    assert told
    assert sockets.failed == 0
    peer.close()


async def test_nothing_is_written_to_a_connection_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A client that resets while a lot is sent to it at once leaves no complaint of asyncio in the log."""

    class WrittenTo(Channel):
        @property
        def wants_more(self) -> bool:
            return True

    here, there = socket.socketpair()
    dropped: list[str] = []
    _, channel = await asyncio.get_running_loop().connect_accepted_socket(lambda: WrittenTo(dropped.append), here)
    there.close()
    for _ in range(20):
        channel.write(b"partial")
    assert not caplog.records


async def test_over_tls(handler: Handler, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS messages, closes by either side, and the bound for pings are the same."""
    monkeypatch.setattr(channel, "STALL_LIMIT_S", 0.5)
    certificate = Certificate(authority.chain, authority.key)
    async with port(routes(handler), certificate=certificate) as opened:
        url = f"wss://localhost:{opened.number}"
        async with connect(f"{url}/socket", ssl=authority.trusted) as client:
            await client.send(bytes(LARGEST_MESSAGE))
            assert await client.recv() == bytes(LARGEST_MESSAGE)
        async with connect(f"{url}/narrow", ssl=authority.trusted) as client:
            await client.send(bytes(500_000))
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1009
        handler.act = handler.idle
        reader, writer = await asyncio.open_connection(
            "localhost", opened.number, ssl=authority.trusted, ssl_handshake_timeout=60
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
            assert unwritten(served) <= UNSENT_HIGH + 2 * SLICE
            assert len(served._unread) <= 2 * READ
            await asyncio.sleep(0)
        assert opened.dropped == ["not_read"]
        peer.writer.transport.abort()


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection counts in its present state until it ends; if too many are opening, a new one is refused."""
    monkeypatch.setattr(channel, "MOST_OPENING", 2)
    numbers = ConnectionCounts()
    first, second = numbers.enter(), numbers.enter()
    assert first is not None
    assert second is not None
    assert numbers.enter() is None
    first.move(ANSWERING)
    assert numbers.enter() is not None
    assert numbers.numbers == {"opening": 2, "idle": 0, "answering": 1, "listening": 0, "websocket": 0}
    for _ in range(2):
        first.leave()
        first.move(OPENING)
    assert numbers.numbers == {"opening": 2, "idle": 0, "answering": 0, "listening": 0, "websocket": 0}
    assert first.state is None


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections and requests that are being answered are bounded as well."""
    monkeypatch.setattr(channel, "MOST_IDLE", 1)
    monkeypatch.setattr(channel, "MOST_ANSWERING", 1)
    numbers = ConnectionCounts()
    place = numbers.enter()
    assert place is not None
    assert numbers.room_for_idle
    assert numbers.room_for_answering
    place.move(IDLE)
    assert not numbers.room_for_idle
    place.move(ANSWERING)
    assert not numbers.room_for_answering
