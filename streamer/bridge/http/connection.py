"""One connection: reads requests and answers them, one after another, until one of them becomes a websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.bridge.http.channel import (
    ANSWERING,
    IDLE,
    LISTENING,
    NOT_READ,
    WEBSOCKET,
    Channel,
    ConnectionCounts,
    CountedConnection,
    Ending,
    ending_of,
)
from streamer.bridge.http.framing import Framing, Head, Mark
from streamer.bridge.http.messages import Handshake, check_handshake
from streamer.bridge.http.request import Headers, HttpError, Request, Response, split_target
from streamer.bridge.http.routes import Admission, Endpoint, Route, Routes, refusal
from streamer.bridge.http.websocket import ConnectionEnded, WebSocket
from streamer.bridge.telemetry.logs import Failures
from streamer.wire.errors import CloseCode

# How long a connection is kept for its next request.
IDLE_LIMIT_S = 15.0
# A client that does not read a piece of its answer for this time is cut off.
ANSWER_LIMIT_S = 10.0
# A client that has ended its side still gets its answer if the answer is ready within this time.
HALF_CLOSED_LIMIT_S = 5.0
# While the socket is not read, this is the time between two looks whether the client is still there.
LOOK_EVERY_S = 1.0
# After the last answer, data of the client is discarded for this time, so that the client can read the answer.
LINGER_S = 2.0
# While this many bytes wait to be parsed, the socket is not read.
UNREAD_MARK = 64 * 1024
# If no more than this is missing of an unwanted body, it is read to its end. Otherwise the connection is closed.
MOST_UNWANTED = 64 * 1024
# The bytes that are parsed at a time. The limit keeps many small pieces of one client from delaying the others.
_SLICE = 16 * 1024
_MOST_PIECES = 256
# routes.BODY_PACE_S is the time for this many bytes of a body.
_PACE_BYTES = 1024

TOO_SLOW: Final = "too_slow"
_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


@dataclass
class Terms:
    """The things that all connections of a port share."""

    routes: Routes
    counts: ConnectionCounts
    failures: Failures
    on_drop: Callable[[str], None]  # is called with the reason when a connection is cut off
    protection: Callable[[Headers], Mapping[str, str]]  # returns header fields to send with every answer
    head_limit_s: float  # for TLS and the first request's head together, and for each head that follows
    ending: bool = False  # connections are not kept for another request any more


class _Cut(Exception):
    """The connection is to be cut off."""


class Connection(Channel):
    """A connection that speaks HTTP."""

    def __init__(self, terms: Terms, entry: CountedConnection, peer: str, deadline: float) -> None:
        """`deadline`: the time of the loop at which the head of the first request must have come."""
        super().__init__(terms.on_drop)
        self._terms = terms
        self._entry = entry
        self.peer = peer  # the address of the client, or of the proxy that speaks for it
        self._deadline = deadline
        self._framing = Framing()
        self._arrival: asyncio.Future[None] | None = None
        self._ended = False  # the client has ended its side
        self._end_fed = False  # the framing knows that the client has ended its side
        self._discarding = False
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    async def serve(self) -> None:
        """Serve requests until the connection ends. If it is lost, this task is cancelled, with any handler."""
        self._task = asyncio.current_task()
        if self._transport is None or self.lost:
            return
        try:
            while await self._exchange():
                pass
        except _Cut:
            pass
        except Exception as error:
            self._terms.failures.report("a connection failed", error)
        finally:
            self.abort()

    @property
    def waits(self) -> bool:
        """Whether no request is under way."""
        return self._entry.state not in (ANSWERING, LISTENING, WEBSOCKET)

    # Called by asyncio

    def data_received(self, data: bytes) -> None:
        """Take data of the client."""
        if not self._discarding:
            self._unread += data
        self._wake_reader()
        self.balance()

    def eof_received(self) -> bool:
        """Note that the client sends no more. It may still read, or it may be gone: both look the same."""
        self._ended = True
        self._wake_reader()
        self.end_by(HALF_CLOSED_LIMIT_S)
        return self._transport is not None and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is lost, and stop working on an answer."""
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()

    @property
    def wants_more(self) -> bool:
        """Whether the socket should be read."""
        return self._discarding or (not self._clogged and len(self._unread) < UNREAD_MARK)

    def balance(self) -> None:
        """Start or stop reading the socket. While it is not read, watch whether the client is still there."""
        super().balance()
        if not self._reading and self._watch is None and not self.lost:
            self._watch = self._loop.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """End the connection if the client has gone, even if not all was read that it sent before."""
        self._watch = None
        if self._reading or self.lost or self._transport is None:
            return
        ending = ending_of(self._transport)
        if ending is Ending.LOST:
            self.abort()
        elif ending is Ending.ENDED and not self._clogged:  # a client that reads its answer is still there
            self.end_by(HALF_CLOSED_LIMIT_S)
        else:
            self._watch = self._loop.call_later(LOOK_EVERY_S, self._look)

    def _cancel_timers(self) -> None:
        super()._cancel_timers()
        if self._watch is not None:
            self._watch.cancel()

    # A request and its answer

    async def _exchange(self) -> bool:
        """Read and answer one request. Return whether another one can follow."""
        request: Request | None = None
        route: Route | None = None
        body: AsyncGenerator[bytes, None] | None = None
        try:
            head = await self._next_head()
            if head is None:
                await self._end()
                return False
            crowded = not self._terms.counts.room_for_answering
            self._entry.move(ANSWERING)
            path, query = split_target(head.target)
            request = Request(head.method, path, query, head.headers, self.peer, head.version)
            if crowded:
                why = "Too many requests at a time; try again in a second."
                raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ErrorCode.BUSY, why, {"Retry-After": "1"})
            route = self._terms.routes.find(request)
            if route.websocket is not None and _asks_for_websocket(head, route):
                await self._converse(request, route.websocket)
                return False
            handler = route.handler(request)
            remaining = self._framing.remaining
            if (remaining is None and not route.largest_body) or (remaining or 0) > route.largest_body:
                raise _too_large(route.largest_body)
            body = self._body(route)
            response = await handler(replace(request, body=body))
        except HttpError as error:
            response = refusal(error, request, route)
        except _Cut:
            raise
        except Exception as error:
            self._terms.failures.report("a request failed", error)
            failure = HttpError(
                HTTPStatus.INTERNAL_SERVER_ERROR, ErrorCode.INTERNAL, "The service failed; its log says why."
            )
            response = refusal(failure, request, route)
        if route is not None and request is not None:
            response.headers.update(route.permission(request))
        try:
            return await self._answer(response, request, body)
        finally:
            await _release(response, body)

    async def _next_head(self) -> Head | None:
        """Return the head of the next request; None if none comes. Raise HttpError if it is not valid."""
        if self._entry.state == ANSWERING:
            if not await self._await_next_request():
                return None
            self._deadline = self._loop.time() + self._terms.head_limit_s
        while True:
            event = self._framing.next()
            if isinstance(event, Head):
                return event
            if event is not Mark.NEEDS_MORE:
                return None
            try:
                if not await self._feed(self._deadline):
                    return None
            except asyncio.TimeoutError:
                self.on_drop(TOO_SLOW)
                raise _Cut from None

    async def _await_next_request(self) -> bool:
        """Wait for the first byte of another request. Return False if none comes within the limit."""
        if self._unread or self._framing.holds_bytes:
            self._entry.move(IDLE)
            return True
        if self._ended or self._terms.ending or not self._terms.counts.room_for_idle:
            return False
        self._entry.move(IDLE)
        with suppress(asyncio.TimeoutError):
            await self._arrive(self._loop.time() + IDLE_LIMIT_S)
        return bool(self._unread)

    async def _body(self, route: Route) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a request's body as they arrive."""
        if self._framing.awaits_consent:
            self.write(self._framing.consent())
        total, slow, patience = 0, 0, route.body_pace_s
        while True:
            if piece := self._piece():
                total, slow = total + len(piece), slow + len(piece)
                if total > route.largest_body:
                    raise _too_large(route.largest_body)
                if slow >= _PACE_BYTES:
                    slow, patience = 0, route.body_pace_s
                yield piece
                await asyncio.sleep(0)  # let other tasks run, even if more of the body is here already
                continue
            if self._framing.whole:
                return
            began = self._loop.time()
            try:
                if not await self._feed(began + patience):
                    raise HttpError(
                        HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, "The connection ended within the body."
                    )
            except asyncio.TimeoutError:
                self.on_drop(TOO_SLOW)
                why = f"The body arrives too slowly: each KiB may take at most {route.body_pace_s:g} s."
                raise HttpError(HTTPStatus.REQUEST_TIMEOUT, ErrorCode.TOO_SLOW, why) from None
            # Only the time spent waiting counts. The handler may take longer.
            patience -= self._loop.time() - began

    def _piece(self) -> bytes:
        """Return the next part of the body that has arrived, limited in size."""
        pieces: list[bytes] = []
        while len(pieces) < _MOST_PIECES and isinstance(event := self._framing.next(), bytes):
            pieces.append(event)
        return b"".join(pieces)

    async def _answer(
        self, response: Response, request: Request | None, body: AsyncGenerator[bytes, None] | None
    ) -> bool:
        """Send an answer, and close the request's body. Return whether another request can follow."""
        framing = self._framing
        headers = {"Date": formatdate(usegmt=True), "Server": "streamer"}
        headers.update(self._terms.protection(request.headers if request is not None else Headers()))
        headers.update(response.headers)
        if isinstance(response.body, bytes) and response.status not in _WITHOUT_BODY:
            headers["Content-Length"] = str(len(response.body))
        if response.lasting:
            self._entry.move(LISTENING)
        keep = request is not None and request.version != "1.0" and self._worth_keeping and not response.lasting
        if not keep:
            headers["Connection"] = "close"
        head = framing.head(response.status, headers)
        if isinstance(response.body, bytes):
            await self._write(head + (framing.piece(response.body) if response.body else b"") + framing.end())
        else:
            await self._write(head)
            await self._stream(response.body)
        await _release(response, body)
        if keep and await self._skip() and framing.next_cycle():
            return True
        await self._end()
        return False

    @property
    def _worth_keeping(self) -> bool:
        """Whether the connection can be kept for another request, once the rest of this one is discarded."""
        remaining = self._framing.remaining
        little = (
            remaining is not None and remaining <= MOST_UNWANTED and not (remaining and self._framing.awaits_consent)
        )
        return little and not (self._framing.broken or self._ended or self._terms.ending)

    async def _stream(self, pieces: AsyncIterable[bytes]) -> None:
        """Send the body of an answer, no faster than the client reads it."""
        try:
            if not self._framing.head_only:
                async for piece in pieces:
                    if piece:
                        await self._write(self._framing.piece(piece))
                        await asyncio.sleep(0)
        except HttpError:  # the answer has begun, so only cutting it off can show the error
            raise _Cut from None
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        await self._write(self._framing.end())

    async def _skip(self) -> bool:
        """Read and discard the rest of a body. Return whether all of it has come."""
        deadline = self._loop.time() + LINGER_S
        try:
            while not self._framing.whole:
                if not self._piece() and not self._framing.whole and not await self._feed(deadline):
                    return False
        except (HttpError, asyncio.TimeoutError):
            return False
        return True

    async def _converse(self, request: Request, endpoint: Endpoint | Admission) -> None:
        """Turn the connection into a websocket, and run its handler."""
        check_handshake(request)
        if self._framing.remaining != 0 or self._framing.next() is not Mark.END:
            raise HttpError(
                HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, "A request for a websocket must not have a body."
            )
        if self._ended or self.lost or self._transport is None:
            raise _Cut
        # From here on, only the endpoint itself may refuse the request.
        endpoint = endpoint if isinstance(endpoint, Endpoint) else endpoint(request)
        handshake = Handshake(request, endpoint.subprotocols)
        answer, data = self._framing.switch([*handshake.headers, *endpoint.headers.items(), ("Server", "streamer")])
        self._entry.move(WEBSOCKET)
        websocket = WebSocket(
            request,
            handshake.subprotocol,
            endpoint.largest_message,
            self.on_drop,
            lambda error: self._terms.failures.report("a websocket failed", error),
        )
        self.write(answer)
        data += self._unread
        self._unread.clear()
        await self._run(websocket, data, endpoint.handler)

    async def go_on(
        self,
        request: Request,
        subprotocol: str | None,
        largest: int,
        data: bytes,
        handler: Callable[[WebSocket], Awaitable[None]],
    ) -> None:
        """Go on with a websocket that began at another worker, which had read this data, until it ends."""
        self._task = asyncio.current_task()
        self._entry.move(WEBSOCKET)
        try:
            if self._transport is not None and not self.lost:
                websocket = WebSocket(
                    request,
                    subprotocol,
                    largest,
                    self.on_drop,
                    lambda error: self._terms.failures.report("a websocket failed", error),
                )
                await self._run(websocket, data + self._unread, handler)
        finally:
            self.abort()

    async def _run(self, websocket: WebSocket, data: bytes, handler: Callable[[WebSocket], Awaitable[None]]) -> None:
        """Run the handler of a websocket."""
        websocket.take_over(self, data)
        try:
            await handler(websocket)
        except asyncio.CancelledError:
            websocket.abort()
            raise
        except ConnectionEnded:
            pass
        except Exception as error:
            self._terms.failures.report("a websocket failed", error)
            await websocket.drop(CloseCode.FAILED, "the service failed")
        await websocket.finish()

    # Inside

    async def _feed(self, deadline: float) -> bool:
        """Parse more data of the client; return False if it sends no more. Raise TimeoutError after the deadline."""
        if not self._unread:
            if self._end_fed:
                return False
            await self._arrive(deadline)
        data = bytes(self._unread[:_SLICE])
        del self._unread[:_SLICE]
        self.balance()
        self._end_fed = not data
        self._framing.feed(data)
        return True

    async def _arrive(self, deadline: float) -> None:
        """Wait for data, or for the end of the client's side. Raise TimeoutError after the deadline."""
        while not self._unread and not self._ended:
            remaining = deadline - self._loop.time()
            if remaining <= 0:
                raise asyncio.TimeoutError
            self._arrival = self._loop.create_future()
            try:
                await asyncio.wait({self._arrival}, timeout=remaining)
            finally:
                self._arrival = None

    async def _write(self, data: bytes) -> None:
        self.write(data)
        if not await self.drain(self._loop.time() + ANSWER_LIMIT_S):
            self.on_drop(NOT_READ)
            raise _Cut

    async def _end(self) -> None:
        """Close the connection so that the last answer still arrives."""
        if self._transport is None or self.lost:
            return
        # A client that still sends would get a reset before it has read the answer.
        sending = not self._framing.at_rest or bool(self._unread)
        self._discarding = True
        self._unread.clear()
        self.balance()
        if sending:
            self.half_close()
            with suppress(asyncio.TimeoutError):
                await self._arrive(self._loop.time() + LINGER_S)
        self.end_by(ANSWER_LIMIT_S)
        self._transport.close()
        await asyncio.wait({self._lost})

    def _wake_reader(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


async def _release(response: Response, body: AsyncGenerator[bytes, None] | None) -> None:
    """Call the answer's `release`, and then close the body that it may read. This may be called again."""
    release, response.release = response.release, None
    if release is not None:
        await release()
    if body is not None:
        await body.aclose()


def _asks_for_websocket(head: Head, route: Route) -> bool:
    """Return whether this is a request for a websocket. Some clients offer HTTP/2 with each request for a page."""
    upgrades = head.headers.all("Upgrade")
    named = any("websocket" in upgrade.lower() for upgrade in upgrades)
    return head.method == "GET" and bool(upgrades) and (named or "GET" not in route.methods)


def _too_large(largest: int) -> HttpError:
    why = f"The body must have at most {largest} bytes." if largest else "This path does not accept a body."
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, ErrorCode.TOO_LARGE, why)
