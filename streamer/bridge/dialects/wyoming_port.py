"""The port for Wyoming, which is no websocket: bare connections, whose bytes go to its dialect as they come.

Behind it is the same code as behind a websocket with several sessions, so limits, quotas, the replay after a failure,
metrics and the shutdown are the same.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from streamer.base.codes import Reason
from streamer.bridge.access.quotas import Denied
from streamer.bridge.dialects.dialects import Dialects
from streamer.bridge.http.channel import NOT_READ, Channel
from streamer.bridge.http.connection import TOO_SLOW
from streamer.bridge.http.listener import TOO_MANY, listening_sockets
from streamer.bridge.http.websocket import CLOSE_LIMIT_S, SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.upstreams.admission import Refused
from streamer.wire.dialects.wyoming import Wyoming, error

# Further connections are cut off at once: there are no keys, and a home has few microphones.
MOST_CONNECTIONS: Final = 64
# While more bytes than this wait for the reader, the socket is not read.
_MOST_UNREAD: Final = 64 * 1024
_PIECE: Final = 16 * 1024  # bytes that the reader gets at a time


class WyomingPort:
    """One port, on each address of its host."""

    def __init__(
        self, dialects: Dialects, on_drop: Callable[[str], None], failures: Failures, first_limit_s: float
    ) -> None:
        """`first_limit_s`: how long a client may take until it sends something."""
        self.first_limit_s = first_limit_s
        self._dialects = dialects
        self._on_drop = on_drop
        self._failures = failures
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Start listening, and return the port. Port 0 means any free one. Raise OSError if that is not possible."""
        return await self.listen(await listening_sockets(host, port))

    async def listen(self, sockets: Sequence[socket.socket]) -> int:
        """Start to accept connections at these sockets, at which other workers may accept, too. Return their port."""
        loop = asyncio.get_running_loop()
        self._servers = [await loop.create_server(self._make, sock=listener) for listener in sockets]
        return int(sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop listening. Connections go on."""
        for server in self._servers:
            server.close()

    async def finish(self, limit_s: float) -> None:
        """Wait until all connections have ended, but at most for `limit_s`, and cut off the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=limit_s)

    def begin(self, connection: BareSocket) -> None:
        """Serve a new connection, or cut it off."""
        if len(self._tasks) >= MOST_CONNECTIONS:
            self._on_drop(TOO_MANY)
            connection.abort()
            return
        task = asyncio.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _make(self) -> BareSocket:
        return BareSocket(self, self._on_drop)

    async def _serve(self, connection: BareSocket) -> None:
        try:
            with suppress(ConnectionEnded, NotRead):
                try:
                    await self._dialects.converse(Wyoming, connection, connection.peer)
                except (Denied, Refused) as refused:
                    await connection.say(error(refused.code, refused.message))
            connection.close()
            await connection.wait_until_closed()
        except Exception as failure:
            self._failures.report("a connection failed", failure)
        finally:
            connection.abort()


class BareSocket(Channel):
    """A connection without a protocol. Its messages are bytes, divided anywhere, and it has no codes for its end."""

    unintelligible = False  # its dialect says what is wrong, and closes it

    def __init__(self, port: WyomingPort, on_drop: Callable[[str], None]) -> None:
        super().__init__(on_drop)
        self.peer = ""
        self._port = port
        self._ended = False  # the client sends no more, but may still read
        self._stalled = False
        self._reader: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._first: asyncio.TimerHandle | None = None

    # For its dialect: websocket.py explains each member

    closing = property(lambda self: self._closing is not None)
    closed = property(lambda self: self._closing is not None and self._closing.done())
    agreed = property(lambda self: self._ended or self.lost)
    goodbye = property(lambda self: self._ended)

    @property
    def fault(self) -> Reason | None:
        """The word for the client's fault that ends the connection; None if there is none."""
        return NOT_READ if self._stalled else None

    async def receive(self) -> bytes:
        """Wait for the next bytes of the client, in one task at a time. Raise ConnectionEnded at the end."""
        while not self._unread:
            if self.lost or self._ended or self._closing is not None:
                raise ConnectionEnded
            assert self._reader is None, "two tasks wait for bytes of the same connection"
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        piece = bytes(self._unread[:_PIECE])
        del self._unread[:_PIECE]
        self.balance()
        return piece

    async def say(self, message: str, deadline: float | None = None) -> None:
        """Send one message, and wait until there is room for another. Raise NotRead or ConnectionEnded otherwise."""
        if self.lost or self._closing is not None:
            await asyncio.wait({self._lost})  # every close has its limit
            raise ConnectionEnded
        if deadline is None:
            self._interrupted = False
            deadline = self._loop.time() + SEND_LIMIT_S
        self.write(message.encode())
        if not await self.drain(deadline):
            raise NotRead(SEND_LIMIT_S)
        if self.lost:
            raise ConnectionEnded

    def interrupt(self) -> None:
        """Stop a say() that is under way."""
        self._interrupted = True
        self._wake_writer()

    def ignore_rest(self) -> None:
        """Do nothing: what cannot be understood closes the connection."""

    def close(self, code: int = 0, reason: str = "") -> asyncio.Task[None]:
        """Begin to close the connection, once. The returned task ends when it is closed."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        return self._closing

    async def drop(self, code: int, reason: str) -> None:
        """Close the connection, even if something is being sent."""
        self.interrupt()
        await self.close()

    async def wait_until_closed(self) -> None:
        """Wait until it is closed, if close() was called."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost."""
        await asyncio.wait({self._lost})

    async def pause(self, seconds: float) -> None:
        """Wait this long before reading more, but not after the connection is lost."""
        if seconds > 0:
            await asyncio.wait({self._lost}, timeout=seconds)

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        super().connection_made(transport)
        self.peer = str((transport.get_extra_info("peername") or ("",))[0])
        self._first = self._loop.call_later(self._port.first_limit_s, self._cut_off_silent)
        self._port.begin(self)

    def data_received(self, data: bytes) -> None:
        """Keep bytes of the client, unless the connection is being closed."""
        if self._first is not None:
            self._first.cancel()
        if self._closing is None:
            self._unread += data
            self.balance()
            self._wake_reader()

    def eof_received(self) -> bool:
        """Note that the client sends no more. It may still read, so that it gets the answer to what it has sent."""
        self._ended = True
        self._wake_reader()
        return self._closing is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is lost."""
        super().connection_lost(exc)
        if self._first is not None:
            self._first.cancel()
        self._wake_reader()

    @property
    def wants_more(self) -> bool:
        """Whether the socket should be read."""
        if self._closing is not None:
            return True  # what comes is dropped, so that the client reads the last message before a reset
        return len(self._unread) < _MOST_UNREAD and not (self._clogged or self._ended)

    def note_stall(self) -> None:
        """Note that the client does not read, just before it is cut off."""
        self._stalled = True

    # Inside

    async def _close(self) -> None:
        self._unread.clear()
        if not self.lost and self._transport is not None:
            if self._ended or not self.half_close():
                self._transport.close()
            self.balance()
            await asyncio.wait({self._lost}, timeout=CLOSE_LIMIT_S)
        if not self.lost:
            self.abort()
            await asyncio.wait({self._lost})

    def _cut_off_silent(self) -> None:
        self.on_drop(TOO_SLOW)
        self.abort()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
