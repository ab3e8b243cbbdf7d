"""The listening sockets of a port. A connection is counted from the moment it is accepted, before TLS and requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.access.proxy_protocol import ProxyHeaderError, read_source
from streamer.bridge.http.connection import TOO_SLOW, Connection, Terms
from streamer.bridge.http.counts import CountedConnection
from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# A client's pings wait behind its audio in this buffer. With the kernel's default size that can be minutes of audio,
# and the client would think that the service is dead.
RECEIVE_BUFFER = 256 * 1024
# The kernel's buffer for a client that does not read; channel.py limits what waits before it.
SEND_BUFFER = 64 * 1024
# Connections that the kernel keeps until they are accepted.
_BACKLOG: Final = 256
_AT_A_TIME: Final = 32
_SHORTEST_WAIT_S: Final = 0.001  # asyncio takes no shorter limit for a TLS handshake than this
# How long to wait after a connection could not be accepted, usually because there are no free descriptors.
ACCEPT_PAUSE_S = 1.0
_LOG_EVERY_S: Final = 60.0

TOO_MANY: Final = "too_many"
TLS: Final = "tls"
PROXY_HEADER: Final = "proxy_header"


class Listener:
    """One port, on each address of its host."""

    def __init__(
        self,
        terms: Terms,
        certificate: Certificate | None = None,
        accept_failed: Callable[[], None] = lambda: None,
        header_proxies: Proxies | None = None,
    ) -> None:
        """`accept_failed` is called whenever a connection cannot be accepted.

        Connections of the proxies `header_proxies` begin with a header of the PROXY protocol. Those of others must not.
        """
        self._terms = terms
        self._certificate = certificate
        self._accept_failed = accept_failed
        self._announcing = header_proxies or Proxies()
        self._sockets: list[socket.socket] = []
        self._pauses: set[asyncio.TimerHandle] = set()
        self._logged_at: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}

    async def open(self, host: str, port: int) -> int:
        """Start listening, and return the port; port 0 means any free one. OSError if that is not possible."""
        self._loop = asyncio.get_running_loop()
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                try:
                    listening = socket.socket(family, kind, protocol)
                except OSError:
                    continue  # this machine does not have that address family
                self._sockets.append(listening)
                _prepare(listening)
                listening.bind((address[0], port, *address[2:]))
                listening.listen(_BACKLOG)
                port = int(listening.getsockname()[1])
            if not self._sockets:
                raise OSError(f"no socket can be made for {host}")
        except OSError:
            self.close()
            raise
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)
        return port

    def close(self) -> None:
        """Stop listening, and close idle connections. Requests and websockets go on."""
        self._terms.ending = True
        while self._sockets:
            listening = self._sockets.pop()
            if self._loop is not None:
                self._loop.remove_reader(listening)
            listening.close()
        for pause in self._pauses:
            pause.cancel()
        for task, connection in list(self._connections.items()):
            if connection.waits:
                task.cancel()

    async def finish(self, limit_s: float) -> None:
        """Wait until all connections have ended, then cut off those that have not."""
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=limit_s)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=limit_s)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_A_TIME):
            try:
                connected, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            counted = self._terms.counts.enter()
            if counted is None:
                self._terms.dropped(TOO_MANY)
                connected.close()
                continue
            self._begin(connected, str(address[0]), counted)

    def _begin(self, connected: socket.socket, peer: str, counted: CountedConnection) -> None:
        assert self._loop is not None
        connected.setblocking(False)
        connection = Connection(self._terms, counted, peer, self._loop.time() + self._terms.head_limit_s)
        task = self._loop.create_task(self._serve(connected, connection))
        self._connections[task] = connection

        def ended(_: asyncio.Task[None]) -> None:
            counted.leave()
            del self._connections[task]
            if not connection.made:
                connected.close()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._terms.failures.report("a connection failed", error)

        task.add_done_callback(ended)

    async def _serve(self, connected: socket.socket, connection: Connection) -> None:
        assert self._loop is not None
        until = self._loop.time() + self._terms.head_limit_s
        if self._announcing.trusts(connection.peer) and not await self._announced(connected, connection):
            return
        settings: dict[str, Any] = {}
        if self._certificate is not None:
            left = max(until - self._loop.time(), _SHORTEST_WAIT_S)
            settings = {"ssl": self._certificate.context, "ssl_handshake_timeout": left}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, connected, **settings)
        except OSError as error:
            late = isinstance(error, ConnectionAbortedError)
            self._terms.dropped(TOO_SLOW if late else TLS)
            return
        await connection.serve()

    async def _announced(self, connected: socket.socket, connection: Connection) -> bool:
        """Read the header of the PROXY protocol, and nothing behind it. Return whether the connection goes on."""
        loop, any_came = asyncio.get_running_loop(), False

        async def receive(size: int) -> bytes:
            nonlocal any_came
            data = b""
            while len(data) < size:
                piece = await loop.sock_recv(connected, size - len(data))
                if not piece:
                    raise EOFError
                data, any_came = data + piece, True
            return data

        try:
            source = await asyncio.wait_for(read_source(receive), self._terms.head_limit_s)
        except asyncio.TimeoutError:
            self._terms.dropped(TOO_SLOW)
            return False
        except (EOFError, OSError):
            if any_came:  # otherwise the proxy has only tried whether somebody listens
                self._terms.dropped(PROXY_HEADER)
            return False
        except ProxyHeaderError as error:
            self._terms.dropped(PROXY_HEADER)
            if self._may_log(PROXY_HEADER):
                log.warning("a trusted proxy sent no valid header of the PROXY protocol", reason=str(error))
            return False
        connection.peer = source or connection.peer
        return True

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Stop accepting for a while. Otherwise the loop would spin, and the log would fill."""
        assert self._loop is not None
        self._accept_failed()
        if self._may_log("accept"):
            log.error("connections cannot be accepted", reason=error.strerror or str(error))
        self._loop.remove_reader(listening)

        def go_on() -> None:
            self._pauses.discard(pause)
            assert self._loop is not None
            self._loop.add_reader(listening, self._accept, listening)

        pause = self._loop.call_later(ACCEPT_PAUSE_S, go_on)
        self._pauses.add(pause)

    def _may_log(self, what: str) -> bool:
        """Return whether it is time to log this again. Otherwise clients could fill the log."""
        assert self._loop is not None
        now, last = self._loop.time(), self._logged_at.get(what)
        if last is not None and now - last < _LOG_EVERY_S:
            return False
        self._logged_at[what] = now
        return True


def _prepare(listening: socket.socket) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # Connections inherit both.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
