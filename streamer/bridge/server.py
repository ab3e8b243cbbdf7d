"""The port: websockets become drivers, plain HTTP becomes pages, and all of it ends in bounded time."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from streamer import __version__
from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import SUBPROTOCOL
from streamer.bridge.connection import CLOSE_LIMIT_S, Connection
from streamer.bridge.driver import SessionDriver
from streamer.bridge.http.handshakes import Handshakes
from streamer.bridge.http.pages import Pages
from streamer.bridge.resumption import Resumption
from streamer.bridge.session.session import Limits, Session
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.admission import Admission
from streamer.triton.link import origin
from streamer.wire.native import PATH, close_reason, encode

log = Log("streamer.bridge")
# The library reports every broken handshake with a traceback, and any port scanner can make one.
_library_log = logging.getLogger("streamer.bridge.websockets")
_library_log.setLevel(logging.CRITICAL)

# Frames of one connection that may wait for its reader: at the high mark its socket is read no further, below the low
# mark it is read again.
FRAMES_HIGH, FRAMES_LOW = 4, 1
# A client's pings stand in line behind its audio. With what the kernel offers by default that can be minutes of
# it, and the client would think us dead.
RECEIVE_BUFFER = 256 * 1024
# What may lie in the kernel for a client that does not read, and what before it: from the high mark on, a session waits
# until it is below the low one.
SEND_BUFFER = 64 * 1024
UNSENT_HIGH, UNSENT_LOW = 32 * 1024, 8 * 1024
PING_EVERY_S = 20.0
MOST_WAITING = 64  # connections that have no sequence: not started, or refused and still closing
MOST_RETURNING = 16  # connections that may only resume a session, and have not said which
MOST_TURNED_AWAY = 64  # connections that are being told why they may not come in; more are just cut off
# All limits of an end together, Triton's own included, stay below the 30 s that a supervisor waits by custom.
FINALS_LIMIT_S = 8.0
CUT_LIMIT_S = 2.0
HURRY_LIMIT_S = 0.5  # for all of it, where nobody has time


class PortError(Exception):
    """The address cannot be listened on; the message is a sentence for the user."""


class BridgeServer:
    """Listens on one port. Sessions are admitted once the admission is open, which also knows whether it is ready."""

    def __init__(
        self,
        host: str,
        port: int,
        model: str,
        metrics: Metrics,
        limits: Limits | None = None,
        entrance: PortPolicy | None = None,
    ) -> None:
        self.admission = Admission(metrics)
        self._host, self._port = host, port
        self._model = model
        self._metrics = metrics
        self._limits = limits
        self._entrance = entrance or PortPolicy()
        self._pages = Pages(metrics, self._state, self._entrance.access)
        self._server: Server | None = None
        self._resumption = Resumption()
        self._drivers: dict[asyncio.Task[None], SessionDriver] = {}
        self._turned_away = 0
        self._hurried = asyncio.Event()

    @property
    def url(self) -> str:
        """Where the websocket is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        scheme = "ws" if self._entrance.certificate is None else "wss"
        return f"{scheme}://{host}:{self._port}{PATH}"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    async def start(self) -> None:
        """Listen; PortError if that is not possible. A port of 0 is replaced by a free one."""
        entrance, certificate = self._entrance, self._entrance.certificate
        try:
            self._server = await serve(
                self._converse,
                self._host,
                self._port,
                process_request=self._pages.answer,
                create_connection=Handshakes().connection,  # type: ignore[arg-type]  # it is only called
                # Audio does not shrink, and results are short.
                compression=None,
                max_size=entrance.largest_message,
                max_queue=(FRAMES_HIGH, FRAMES_LOW),
                write_limit=(UNSENT_HIGH, UNSENT_LOW),
                open_timeout=entrance.handshake_s,
                close_timeout=CLOSE_LIMIT_S,
                # Pings keep proxies from closing a silent session. Their answers stand behind unread audio, so
                # it is the session's own idle limit that finds out the dead.
                ping_interval=PING_EVERY_S,
                ping_timeout=None,
                server_header="streamer",
                logger=_library_log,
                select_subprotocol=_subprotocol,
                ssl=certificate.context if certificate else None,
                ssl_handshake_timeout=entrance.handshake_s if certificate else None,
            )
        except OSError as error:
            raise PortError(_why(self._host, self._port, error)) from error
        for listening in self._server.sockets:
            # Connections inherit both.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self, grace: float = 0.0) -> None:
        """End within a bounded time: sessions may end by themselves for `grace` seconds, then get their finals."""
        self.admission.close()
        self._metrics.ready.set(0)
        if self._server is None:
            return
        if self._drivers:
            log.info("draining", sessions=self.admission.sessions, seconds=grace)
        await self._wait(grace)
        self._server.close(close_connections=False)
        for driver in list(self._drivers.values()):
            driver.drain()
        await self._wait(FINALS_LIMIT_S)
        for pump in self._drivers:
            pump.cancel()
        hurried = self._hurried.is_set()
        await _wait(self._drivers, HURRY_LIMIT_S if hurried else CLOSE_LIMIT_S + CUT_LIMIT_S)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), HURRY_LIMIT_S if hurried else CUT_LIMIT_S)

    def hurry(self) -> None:
        """A stop() that is under way, or comes, waits for nobody: sessions are cut off."""
        self._hurried.set()

    async def _wait(self, limit: float) -> None:
        """For all sessions to end by themselves, unless somebody is in a hurry."""
        ended = asyncio.create_task(_wait(self._drivers, limit))
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait((ended, hurried), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            hurried.cancel()

    async def _converse(self, websocket: ServerConnection) -> None:
        assert websocket.request is not None
        access, visit, barred = self._entrance.access, None, None
        request, peer = websocket.request, websocket.remote_address[0]
        try:
            visit = access.enter(request, peer)
            caller = visit.caller
        except Denied as denied:
            # Whoever has all that he may have is let in to go on with a session of his own, which is counted already.
            known = denied.retry_s > 0 and self._resumption.knows(access.caller(request, peer).key)
            if not known or sum(other.barred for other in self._drivers.values()) >= MOST_RETURNING:
                await self._turn_away(websocket, denied)
                return
            caller = access.caller(request, peer)
            barred = denied
        session = Session(secrets.token_hex(8), secrets.token_urlsafe(24), self._model, time.monotonic(), self._limits)
        # In this connection's context, and in that of the pump.
        logs.session.set(session.number)
        origin.set(f"{session.number}-")
        if caller.key:
            log.info("admitted", key=caller.key)
        connection = Connection(websocket)
        driver = SessionDriver(
            connection, session, self.admission, self._metrics, self._resumption, visit, key=caller.key, barred=barred
        )
        if sum(other.waiting for other in self._drivers.values()) >= MOST_WAITING:
            session.refuse("full", "Too many connections wait for a session; try again later.")
        pump = asyncio.create_task(driver.pump())
        self._drivers[pump] = driver
        pump.add_done_callback(self._drivers.pop)
        await driver.read(connection)

    async def _turn_away(self, websocket: ServerConnection, denied: Denied) -> None:
        """Say why not and close: a browser cannot read the status of a refused handshake."""
        self._metrics.refusals.labels(denied.code).inc()
        log.info("refused", reason=denied.code)
        self._turned_away += 1
        try:
            if self._turned_away <= MOST_TURNED_AWAY:
                await asyncio.wait_for(_refuse(websocket, denied), CLOSE_LIMIT_S)
        except (asyncio.TimeoutError, ConnectionClosed):
            pass
        finally:
            self._turned_away -= 1
            websocket.transport.abort()

    def _state(self) -> dict[str, Any]:
        admission = self.admission
        return {
            "service": "streamer",
            "version": __version__,
            "ready": admission.ready,
            "model": admission.model or self._model,
            "models": admission.models,
            "sessions": admission.sessions,
            "sequences": admission.taken,
            "sessions_limit": admission.most,
        }


async def _refuse(websocket: ServerConnection, denied: Denied) -> None:
    error = {"type": "error", "n": 1, "code": denied.code, "message": denied.message, "fatal": True}
    await websocket.send(encode(error))
    closing = asyncio.create_task(websocket.close(denied.close_code, close_reason(denied.reason)))
    try:
        # The client's answer to the close stands behind what it has sent already.
        async for _ in websocket:
            pass
        await closing
    finally:
        closing.cancel()


def _subprotocol(websocket: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Never the one with the key in it."""
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


async def _wait(tasks: Iterable[asyncio.Task[None]], limit: float) -> None:
    waiting = set(tasks)
    if waiting:
        await asyncio.wait(waiting, timeout=limit)


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken: end what listens there or choose another port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} may not be opened by this user: choose one above 1023."
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"'{host}' is not an address of this machine."
    return f"Port {port} of {host} cannot be opened: {error.strerror or error}."
