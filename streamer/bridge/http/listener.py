"""The listening sockets of a port. A connection is counted from the moment it is accepted, before TLS and requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies, ProxyHeaderError, read_source
from streamer.bridge.http.channel import CountedConnection
from streamer.bridge.http.connection import TOO_SLOW, Connection, Terms
from streamer.bridge.http.request import Request
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.telemetry.logs import Log

log = Log("streamer.bridge")

# A client's pings wait behind its audio in this buffer. In one of the kernel's default size, minutes of audio may wait,
# and the client would think that the service is dead.
RECEIVE_BUFFER = 256 * 1024
# The kernel's buffer for a client that does not read; channel.py limits what waits before it.
SEND_BUFFER = 64 * 1024
# Connections that the kernel keeps until they are accepted.
_BACKLOG: Final = 256
_AT_A_TIME: Final = 32  # connections to accept before other work is done
_SHORTEST_WAIT_S: Final = 0.001  # asyncio takes no shorter limit for a TLS handshake than this
# The pause after a connection could not be accepted, usually because there are no free descriptors.
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
        on_accept_failure: Callable[[], None] = lambda: None,
        header_proxies: Proxies | None = None,
    ) -> None:
        """`on_accept_failure` is called whenever a connection cannot be accepted.

        Connections of `header_proxies` begin with a header of the PROXY protocol. Those of others must not.
        """
        self._terms = terms
        self._certificate = certificate
        self._on_accept_failure = on_accept_failure
        self._header_proxies = header_proxies or Proxies()
        self._sockets: list[socket.socket] = []
        self._at_a_time = _AT_A_TIME
        self._pauses: set[asyncio.TimerHandle] = set()
        self._logged_at: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}

    async def open(self, host: str, port: int) -> int:
        """Start listening, and return the port. Port 0 means any free one. Raise OSError if that is not possible."""
        return self.listen(await listening_sockets(host, port))

    def listen(self, sockets: Sequence[socket.socket], *, shared: bool = False) -> int:
        """Start to accept connections at these sockets, and return their port.

        `shared`: other workers accept there, too. Then each takes one at a time, and the least busy one comes first.
        """
        self._loop = asyncio.get_running_loop()
        self._at_a_time = 1 if shared else _AT_A_TIME
        self._sockets = list(sockets)
        for listener in self._sockets:
            self._loop.add_reader(listener, self._accept, listener)
        return int(self._sockets[0].getsockname()[1])

    def go_on(
        self,
        client: socket.socket,
        request: Request,
        subprotocol: str | None,
        largest: int,
        data: bytes,
        handler: Callable[[WebSocket], Awaitable[None]],
    ) -> bool:
        """Go on with a websocket that began at another worker. Return False if there are too many connections."""
        assert self._loop is not None
        entry = self._terms.counts.enter()
        if entry is None:
            self._terms.on_drop(TOO_MANY)
            return False

        async def serve(connection: Connection) -> None:
            assert self._loop is not None
            await self._loop.connect_accepted_socket(lambda: connection, client)
            await connection.go_on(request, subprotocol, largest, data, handler)

        self._begin(client, request.peer, entry, serve)
        return True

    def close(self) -> None:
        """Stop listening, and close idle connections. Requests and websockets go on."""
        self._terms.ending = True
        while self._sockets:
            listener = self._sockets.pop()
            if self._loop is not None:
                self._loop.remove_reader(listener)
            listener.close()
        for pause in self._pauses:
            pause.cancel()
        for task, connection in list(self._connections.items()):
            if connection.waits:
                task.cancel()

    async def finish(self, limit_s: float) -> None:
        """Wait until all connections have ended, but at most for `limit_s`, and cut off the rest."""
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=limit_s)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=limit_s)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(self._at_a_time):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listener, error)
                return
            entry = self._terms.counts.enter()
            if entry is None:
                self._terms.on_drop(TOO_MANY)
                client.close()
                continue
            self._begin(client, str(address[0]), entry)

    def _begin(
        self,
        client: socket.socket,
        peer: str,
        entry: CountedConnection,
        serve: Callable[[Connection], Coroutine[None, None, None]] | None = None,
    ) -> None:
        assert self._loop is not None
        client.setblocking(False)
        connection = Connection(self._terms, entry, peer, self._loop.time() + self._terms.head_limit_s)
        task = self._loop.create_task(self._serve(client, connection) if serve is None else serve(connection))
        self._connections[task] = connection

        def clean_up(_: asyncio.Task[None]) -> None:
            entry.leave()
            del self._connections[task]
            if not connection.made:
                client.close()
            if not task.cancelled() and (error := task.exception()) is not None:
                self._terms.failures.report("a connection failed", error)

        task.add_done_callback(clean_up)

    async def _serve(self, client: socket.socket, connection: Connection) -> None:
        assert self._loop is not None
        deadline = self._loop.time() + self._terms.head_limit_s
        if self._header_proxies.trusts(connection.peer) and not await self._read_proxy_header(client, connection):
            return
        settings: dict[str, Any] = {}
        if self._certificate is not None:
            remaining = max(deadline - self._loop.time(), _SHORTEST_WAIT_S)
            settings = {"ssl": self._certificate.context, "ssl_handshake_timeout": remaining}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client, **settings)
        except OSError as error:
            late = isinstance(error, ConnectionAbortedError)
            self._terms.on_drop(TOO_SLOW if late else TLS)
            return
        await connection.serve()

    async def _read_proxy_header(self, client: socket.socket, connection: Connection) -> bool:
        """Read the header of the PROXY protocol, and nothing behind it. Return whether the connection goes on."""
        loop, began = asyncio.get_running_loop(), False

        async def receive(size: int) -> bytes:
            nonlocal began
            data = b""
            while len(data) < size:
                piece = await loop.sock_recv(client, size - len(data))
                if not piece:
                    raise EOFError
                data, began = data + piece, True
            return data

        try:
            source = await asyncio.wait_for(read_source(receive), self._terms.head_limit_s)
        except asyncio.TimeoutError:
            self._terms.on_drop(TOO_SLOW)
            return False
        except (EOFError, OSError):
            if began:  # a connection without any bytes is a health check of the proxy
                self._terms.on_drop(PROXY_HEADER)
            return False
        except ProxyHeaderError as error:
            self._terms.on_drop(PROXY_HEADER)
            if self._may_log(PROXY_HEADER):
                log.warning("a trusted proxy sent no valid header of the PROXY protocol", reason=str(error))
            return False
        connection.peer = source or connection.peer
        return True

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """Stop accepting for a while. Otherwise the loop would spin, and the log would fill."""
        assert self._loop is not None
        self._on_accept_failure()
        if self._may_log("accept"):
            log.error("connections cannot be accepted", reason=error.strerror or str(error))
        self._loop.remove_reader(listener)

        def resume() -> None:
            self._pauses.discard(pause)
            assert self._loop is not None
            self._loop.add_reader(listener, self._accept, listener)

        pause = self._loop.call_later(ACCEPT_PAUSE_S, resume)
        self._pauses.add(pause)

    def _may_log(self, event: str) -> bool:
        """Return whether it is time to log this event again. Without a limit, clients could fill the log."""
        assert self._loop is not None
        now, last = self._loop.time(), self._logged_at.get(event)
        if last is not None and now - last < _LOG_EVERY_S:
            return False
        self._logged_at[event] = now
        return True


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on each address of a host. Port 0 means any free one. Raise OSError if it fails."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            try:
                listener = socket.socket(family, kind, protocol)
            except OSError:
                continue  # this machine does not have that address family
            sockets.append(listener)
            _prepare(listener)
            listener.bind((address[0], port, *address[2:]))
            listener.listen(_BACKLOG)
            port = int(listener.getsockname()[1])
        if not sockets:
            raise OSError(f"no socket can be made for {host}")
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _prepare(listener: socket.socket) -> None:
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listener.family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    # Connections inherit both sizes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
