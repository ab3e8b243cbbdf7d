"""Gives the websocket of a client that returns to the worker that has its session.

The connection itself goes to that worker, so nothing of the session comes by here afterwards. TLS is the exception: its
state is in this process, which passes on what it deciphers, as bytes.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from contextlib import suppress
from typing import Final, Protocol

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.bridge.http.channel import Channel
from streamer.bridge.http.request import Headers, Request
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.workers.neighbours import NeighbourAway, Neighbours

KIND: Final = "resume"
PROBLEM: Final = "problem"
_SETTLE_S: Final = 0.05  # until what was written to the client is in the kernel


class PassedOn(Protocol):
    """A connection that another worker has now."""

    async def wait_until_lost(self) -> None:
        """Wait until this process has nothing to do with it any more."""


async def pass_on(
    neighbours: Neighbours, number: int, websocket: WebSocket, wanted: JsonObject
) -> PassedOn | ErrorCode:
    """Give a websocket to another worker, with what its client asks for. Return the problem if it does not take it."""
    if websocket.unsent:
        await asyncio.sleep(_SETTLE_S)
    rest = websocket.pause_for_passing()
    if rest is None:
        return ErrorCode.NOT_READY  # it has sent more already; the client tries again
    ours: socket.socket | None = None
    try:
        try:
            if websocket.enciphered:
                ours, gift = socket.socketpair()
            else:
                gift = websocket.duplicate()
        except OSError:  # no descriptor is left
            return ErrorCode.NOT_READY
        with gift:
            request = websocket.request
            question = {
                **wanted,
                "peer": request.peer,
                "target": f"{request.path}?{request.query}",
                "headers": [list(pair) for pair in request.headers],
                "subprotocol": websocket.subprotocol,
                "rest": base64.b64encode(rest).decode(),
            }
            reply = await neighbours.ask_briefly(number, KIND, question, gift.fileno())
        problem = reply.head.get(PROBLEM)
        if problem is not None:
            return ErrorCode(str(problem))
        if ours is None:
            websocket.let_go()
            return websocket
        between, ours = await Between.begin(websocket, ours), None
        return between
    except NeighbourAway as away:
        return ErrorCode.UNKNOWN_TOKEN if away.gone else ErrorCode.NOT_READY
    finally:
        if ours is not None:
            ours.close()
        websocket.go_on_reading(rest)


def request_of(question: JsonObject) -> Request:
    """Return the request with which a websocket began that another worker gives away."""
    path, _, query = str(question["target"]).partition("?")
    headers = question["headers"]
    assert isinstance(headers, list)
    return Request(
        "GET", path, query, Headers((str(name), str(value)) for name, value in headers), str(question["peer"])
    )


def rest_of(question: JsonObject) -> bytes:
    """Return what was read of such a websocket."""
    return base64.b64decode(str(question["rest"]))


class _End(Channel):
    """One end of what passes bytes on. It reads only while the other end has room."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.other: _End | None = None

    @property
    def wants_more(self) -> bool:
        """Whether the socket should be read."""
        return self.other is not None and not self.other.clogged

    @property
    def clogged(self) -> bool:
        """Whether too much waits to be written."""
        return self._clogged

    def data_received(self, data: bytes) -> None:
        """Pass data on."""
        if self.other is not None:
            self.other.write(data)

    def eof_received(self) -> bool:
        """Close both ends."""
        self.finish()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end, too."""
        super().connection_lost(exc)
        if self.other is not None:
            self.other.finish()

    def pause_writing(self) -> None:
        """Read no more at the other end."""
        super().pause_writing()
        if self.other is not None:
            self.other.balance()

    def resume_writing(self) -> None:
        """Read on at the other end."""
        super().resume_writing()
        if self.other is not None:
            self.other.balance()

    def finish(self) -> None:
        """Close it when what waits is written."""
        if self._transport is not None and not self.lost:
            with suppress(OSError):
                self._transport.close()
            self.end_by(_LINGER_S)

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost."""
        await asyncio.wait({self._lost})


_LINGER_S: Final = 3.0


class Between:
    """Passes bytes on between a client's connection with TLS and the worker that has its session."""

    def __init__(self, client: _End, worker: _End) -> None:
        self._ends = (client, worker)

    @classmethod
    async def begin(cls, websocket: WebSocket, ours: socket.socket) -> Between:
        """Begin to pass on what comes from now on."""
        client, worker = _End(), _End()
        ours.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: worker, sock=ours)
        client.other, worker.other = worker, client
        if websocket.lost:  # meanwhile, and nobody would tell this end
            client.connection_lost(None)
        else:
            client.inherit(websocket)
            websocket.let_go()
            client.balance()
        return cls(client, worker)

    async def wait_until_lost(self) -> None:
        """Wait until both ends are closed."""
        try:
            for end in self._ends:
                await end.wait_until_lost()
        finally:
            for end in self._ends:
                end.abort()
