"""A handler of websockets that does what a test wants, and a client that sends it raw frames."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from websockets.frames import Frame, Opcode

from streamer.bridge.http.channel import Channel
from streamer.bridge.http.routes import Endpoint, Route
from streamer.bridge.http.websocket import WebSocket
from tests.bridge.http.reader import HANDSHAKE, Peer, Port

LARGEST_MESSAGE = 1_000_000
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


def routes(handler: Handler) -> dict[str, Route]:
    return {
        "/socket": Route(websocket=Endpoint(handler, LARGEST_MESSAGE, ("streamer",))),
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


def unwritten(channel: Channel) -> int:
    """Return how many bytes of the service wait to be written."""
    with suppress(AttributeError):  # Python 3.10: TLS over a connection that has just been lost
        return 0 if channel._transport is None or channel.lost else channel._transport.get_write_buffer_size()
    return 0
