"""Websockets over real sockets, tested with the library's client and with raw bytes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode

from streamer.base.events import Acknowledgement
from streamer.bridge.http import websocket
from streamer.bridge.http.messages import Messages
from streamer.bridge.http.websocket import Chunk, ConnectionEnded, WebSocket
from streamer.bridge.session.messages import Numbered
from streamer.wire.errors import CloseCode
from tests.bridge.http.reader import HANDSHAKE, Port
from tests.bridge.http.websocket_handler import LARGEST_MESSAGE, SLICE, Handler, masked, raw, stop_reading
from tests.bridge.service_client import eventually


async def test_messages(sockets: Port) -> None:
    """Texts and bytes, short and long, in fragments or not, arrive unchanged in both directions."""
    async with connect(f"ws://127.0.0.1:{sockets.number}/socket", subprotocols=["streamer"]) as client:  # type: ignore[list-item]
        assert client.subprotocol == "streamer"
        assert client.protocol.extensions == []
        for message in ("", b"", "né", b"\0" * 70_000, bytes(LARGEST_MESSAGE)):
            await client.send(message)
            assert await client.recv() == message
        await client.send(["frag", "men", "ts"])
        assert await client.recv() == "fragments"
    await sockets.until(websocket=0)
    assert (sockets.failed, sockets.dropped) == (0, [])


async def test_limits_by_path(sockets: Port) -> None:
    """Each path has its own limit for messages."""
    async with connect(f"ws://127.0.0.1:{sockets.number}/narrow") as client:
        await client.send(b"0123456789")
        assert await client.recv() == b"0123456789"
        await client.send(b"0123456789a")
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1009


async def test_frames_right_behind_the_request(sockets: Port) -> None:
    """A client may send frames without waiting for the answer to its request."""
    peer = await raw(sockets, masked(Opcode.TEXT, b"at once"))
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
async def test_refused_handshakes(sockets: Port, data: bytes, status: bytes) -> None:
    """Refused handshakes get an answer of plain HTTP."""
    peer = await sockets.connect(data)
    answer = await peer.answer()
    assert answer.status == int(status)
    assert answer.error["message"]
    peer.close()


async def test_who_closes(sockets: Port, handler: Handler) -> None:
    """After a close, the websocket knows which side closed, and why."""
    client = await connect(f"ws://127.0.0.1:{sockets.number}/socket")
    await client.close()
    await handler.ended.wait()
    ended = handler.websocket
    assert ended is not None
    assert (ended.goodbye, ended.agreed, ended.fault) == (True, True, None)
    assert client.close_code == 1000

    client = await connect(f"ws://127.0.0.1:{sockets.number}/socket")
    await client.close(4999)
    await handler.ended.wait()
    assert handler.websocket is not None
    assert (handler.websocket.goodbye, handler.websocket.agreed) == (False, True)

    client = await connect(f"ws://127.0.0.1:{sockets.number}/socket")
    await client.send(b"\xff", text=True)
    with pytest.raises(ConnectionClosed):
        await client.recv()
    await handler.ended.wait()
    assert client.close_code == 1007
    assert handler.websocket.fault == "not_utf8"

    client = await connect(f"ws://127.0.0.1:{sockets.number}/socket")
    client.transport.abort()
    await asyncio.sleep(0)
    await handler.ended.wait()
    assert (handler.websocket.goodbye, handler.websocket.agreed, handler.websocket.fault) == (False, False, None)


async def test_our_close(sockets: Port, handler: Handler) -> None:
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
        await websocket.wait_until_closed()
        assert websocket.closed
        assert websocket.agreed

    handler.act = act
    async with connect(f"ws://127.0.0.1:{sockets.number}/socket") as client:
        with suppress(ConnectionClosed):
            for _ in range(200):
                await client.send(bytes(50_000))
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert (client.close_code, client.close_reason) == (1013, "come again")
    assert sockets.failed == 0


async def test_a_handler_that_returns(sockets: Port, handler: Handler) -> None:
    """When a handler returns, its websocket is closed normally."""

    async def act(websocket: WebSocket) -> None:
        await websocket.say("hello")

    handler.act = act
    async with connect(f"ws://127.0.0.1:{sockets.number}/socket") as client:
        assert await client.recv() == "hello"
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1000


@pytest.mark.fails_inside
async def test_a_handler_that_fails(sockets: Port, handler: Handler, caplog: pytest.LogCaptureFixture) -> None:
    """When a handler fails, the client is told that the service failed, and the log has the traceback."""

    async def act(websocket: WebSocket) -> None:
        raise RuntimeError("a fault of ours")

    handler.act = act
    with caplog.at_level(logging.ERROR, logger="streamer"):
        async with connect(f"ws://127.0.0.1:{sockets.number}/socket") as client:
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1011
    assert "RuntimeError: a fault of ours" in caplog.text
    assert sockets.failed == 1


@pytest.mark.fails_inside
async def test_a_fault_within(
    sockets: Port, handler: Handler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error of the library is logged and counted once."""

    def broken(self: Messages, frame: Any) -> None:
        raise RuntimeError("a fault of somebody's")

    monkeypatch.setattr(Messages, "_assemble", broken)
    with caplog.at_level(logging.ERROR, logger="streamer"):
        async with connect(f"ws://127.0.0.1:{sockets.number}/socket") as client:
            await client.send("a")
            await client.send("b")
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1011
    assert caplog.text.count("RuntimeError: a fault of somebody's") == 1
    assert sockets.failed == 1


async def test_pings(sockets: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings are sent at intervals, and those of a client are answered."""
    monkeypatch.setattr(websocket, "PING_EVERY_S", 0.05)
    peer = await raw(sockets, masked(Opcode.PING, b"anybody?"))
    assert await peer.reader.readexactly(10) == b"\x8a\x08anybody?"
    assert await asyncio.wait_for(peer.reader.readexactly(4), 60) == b"\x89\x00\x89\x00"
    peer.close()


async def test_what_is_owed_to_who_cannot_be_understood(sockets: Port, handler: Handler) -> None:
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
    peer = await raw(sockets, masked(Opcode.BINARY, b"first") + b"\x82\xff" + bytes([127] * 12) + bytes(3_000_000))
    told = await peer.rest()
    assert told.endswith(b"%0100d\x88\x02\x03\xe8" % 99)
    assert told.count(b"\x81\x64") == 100
    peer.close()
    await handler.ended.wait()
    assert (sockets.failed, sockets.dropped) == (0, [])


# Bounds


async def test_interrupted(sockets: Port, handler: Handler) -> None:
    """An interrupted send stops waiting for room."""
    told: list[Numbered] = []

    async def act(websocket: WebSocket) -> None:
        asyncio.get_running_loop().call_later(0.2, websocket.interrupt)
        while await websocket.send([Numbered(1, Acknowledgement(0), "a" * 10_000)] * 10, told.append):
            pass
        assert await websocket.send([], told.append)
        websocket.abort()

    handler.act = act
    peer = await raw(sockets)
    stop_reading(peer)
    await asyncio.wait_for(handler.ended.wait(), 60)
    peer.close()


async def test_who_takes_no_part_in_a_close(sockets: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not take part in a close is cut off, whichever side began."""
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.1)

    async def act(websocket: WebSocket) -> None:
        await websocket.close(CloseCode.DONE, "")

    for begun in (handler.echo, act):
        handler.act = begun
        peer = await raw(sockets, masked(Opcode.CLOSE, b"") if begun == handler.echo else b"")
        assert (await peer.rest())[:1] == b"\x88"
        await sockets.until(websocket=0)
        peer.close()


async def test_dropped_while_it_closes(sockets: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that is under way is not waited for twice."""
    monkeypatch.setattr(websocket, "CLOSE_LIMIT_S", 0.2)

    async def act(websocket: WebSocket) -> None:
        closing = websocket.close(CloseCode.DONE, "")
        await asyncio.sleep(0)
        await websocket.drop(CloseCode.FAILED, "the service failed")
        assert closing.cancelled()
        assert websocket.lost

    handler.act = act
    peer = await raw(sockets)
    assert await peer.rest() == b"\x88\x02\x03\xe8"
    await handler.ended.wait()
    assert sockets.failed == 0
    peer.close()


async def test_what_came_before_a_loss(sockets: Port, handler: Handler) -> None:
    """Messages that arrived before a loss are all received, and then the end."""
    go_on, heard = asyncio.Event(), 0

    async def act(websocket: WebSocket) -> None:
        nonlocal heard
        await go_on.wait()
        while True:
            await websocket.receive()
            heard += 1

    handler.act = act
    peer = await raw(sockets, masked(Opcode.BINARY, bytes(10)) * 2000)
    await asyncio.sleep(0.05)
    assert handler.websocket is not None
    handler.websocket.abort()
    peer.close()
    await asyncio.sleep(0)
    go_on.set()
    await handler.ended.wait()
    assert heard == 2000


async def test_large_messages_wait_alone(sockets: Port, handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a large message waits for the handler, the socket is not read."""
    monkeypatch.setattr(websocket, "LENGTH_HIGH", 1000)
    go_on = asyncio.Event()

    async def act(websocket: WebSocket) -> None:
        await go_on.wait()
        for _ in range(2):
            assert len(await websocket.receive()) == 2000

    handler.act = act
    peer = await raw(sockets, masked(Opcode.BINARY, bytes(2000)) * 2)
    assert handler.websocket is not None
    opened = handler.websocket
    await eventually(lambda: not opened.wants_more)
    go_on.set()
    await asyncio.wait_for(handler.ended.wait(), 60)
    peer.close()


async def test_a_pause_ends_with_the_connection(sockets: Port, handler: Handler) -> None:
    """A handler that pauses between messages does not go on waiting when the connection is lost."""
    pausing = asyncio.Event()

    async def act(websocket: WebSocket) -> None:
        await websocket.receive()
        pausing.set()
        await websocket.pause(1e6)
        assert await websocket.receive() == b"two"
        with pytest.raises(ConnectionEnded):
            await websocket.receive()

    handler.act = act
    peer = await raw(sockets, masked(Opcode.BINARY, b"one") + masked(Opcode.BINARY, b"two"))
    await asyncio.wait_for(pausing.wait(), 60)
    peer.writer.transport.abort()
    await asyncio.wait_for(handler.ended.wait(), 60)
    assert sockets.failed == 0


class Ear:
    """Takes the audio of a websocket while its task waits, until it refuses."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most
        self.taken: list[list[bytes]] = []

    def take(self, chunks: Sequence[Chunk]) -> bool:
        if len(self.taken) >= self.most:
            return False
        self.taken.append([audio for audio, _ in chunks])
        assert [at for _, at in chunks] == sorted(at for _, at in chunks)
        return True


async def test_audio_is_taken_while_the_task_waits(sockets: Port, handler: Handler) -> None:
    """Audio does not wake the task; it is held until enough of it has come; everything else comes behind it."""
    ear, heard, waits = Ear(), list[str | bytes](), asyncio.Event()

    async def act(websocket: WebSocket) -> None:
        with suppress(ConnectionEnded):
            while True:
                waits.set()
                heard.append(await websocket.receive(ear.take))

    handler.act = act
    peer = await raw(sockets)
    await waits.wait()
    assert handler.websocket is not None
    peer.writer.write(masked(Opcode.BINARY, b"one"))
    await eventually(lambda: ear.taken == [[b"one"]])
    handler.websocket.hold(6)
    peer.writer.write(masked(Opcode.BINARY, b"two"))
    await eventually(lambda: handler.websocket is not None and handler.websocket.held == 3)
    peer.writer.write(masked(Opcode.BINARY, b"three") + masked(Opcode.PING, b""))
    await eventually(lambda: ear.taken[1:] == [[b"two", b"three"]])
    peer.writer.write(masked(Opcode.BINARY, b"four"))
    await eventually(lambda: handler.websocket is not None and handler.websocket.held == 4)
    handler.websocket.release()
    handler.websocket.release()
    assert ear.taken[2:] == [[b"four"]]
    assert heard == []
    # A text wakes the task, after what was held is taken. What follows at once waits for the task as well.
    peer.writer.write(masked(Opcode.BINARY, b"5") + masked(Opcode.TEXT, b"flush") + masked(Opcode.BINARY, b"6"))
    await eventually(lambda: heard == ["flush", b"6"])
    assert ear.taken[3:] == [[b"5"]]
    # Each of the tiny messages takes memory, so no more than a few are held.
    handler.websocket.hold(1000)
    peer.writer.write(masked(Opcode.BINARY, b"7") * 40)
    await eventually(lambda: sum(map(len, ear.taken)) + len(heard) + handler.websocket.held == 4 + 3 + 40)  # type: ignore[union-attr]
    assert handler.websocket.held < 16
    # At the end of the connection, the task gets the rest.
    peer.writer.write(masked(Opcode.BINARY, b"last"))
    await eventually(lambda: handler.websocket is not None and handler.websocket.held > 3)
    peer.close()
    await handler.ended.wait()
    assert heard[-1] == b"last"


async def test_audio_that_is_not_taken(sockets: Port, handler: Handler) -> None:
    """Audio that cannot be taken now, and audio after it, wakes the task, in order. So does a long message."""
    ear, heard, waits = Ear(most=1), list[str | bytes](), asyncio.Event()

    async def act(websocket: WebSocket) -> None:
        with suppress(ConnectionEnded):
            while True:
                waits.set()
                heard.append(await websocket.receive(ear.take))

    handler.act = act
    peer = await raw(sockets)
    await waits.wait()
    peer.writer.write(masked(Opcode.BINARY, bytes(SLICE + 1)))
    await eventually(lambda: heard == [bytes(SLICE + 1)])
    peer.writer.write(masked(Opcode.BINARY, b"1"))
    await eventually(lambda: ear.taken == [[b"1"]])
    peer.writer.write(masked(Opcode.BINARY, b"2") + masked(Opcode.BINARY, b"3"))
    await eventually(lambda: heard[1:] == [b"2", b"3"])
    peer.close()


async def test_a_failure_while_audio_is_taken(sockets: Port, handler: Handler) -> None:
    """The task gets the error of what takes its audio, as if it had called that itself."""
    outcome = asyncio.get_running_loop().create_future()
    waits = asyncio.Event()

    def take(chunks: Sequence[Chunk]) -> bool:
        raise RuntimeError("a fault of ours")

    async def act(websocket: WebSocket) -> None:
        waits.set()
        try:
            await websocket.receive(take)
        except RuntimeError as error:
            outcome.set_result(str(error))

    handler.act = act
    peer = await raw(sockets)
    await waits.wait()
    peer.writer.write(masked(Opcode.BINARY, b"audio"))
    assert await asyncio.wait_for(outcome, 60) == "a fault of ours"
    peer.close()
