"""One call over gRPC as the connection of a session: it looks like a websocket to the driver."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import grpc  # type: ignore[import-untyped]

from streamer.base.codes import ErrorCode, Reason
from streamer.base.json_types import JsonObject
from streamer.bridge.grpc.messages import Codec, Unreadable
from streamer.bridge.http.channel import NOT_READ
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.wire.dialects.grpc_speech import END, status_of
from streamer.wire.errors import WireError, bad
from streamer.wire.native import encode

_T = TypeVar("_T")
_LOOK_AGAIN_S: Final = 1.0  # at a client that does not read
_UNREADABLE: Final = "A request is no message of this method."


class Call:
    """One call. A message for its dialect is the audio of a request, its other fields as JSON, or END."""

    unintelligible = False  # what cannot be read ends the call

    def __init__(self, context: Any, codec: Codec) -> None:
        """`context`: of grpc.aio."""
        self.connection: str = context.peer()  # its other end, as gRPC calls it
        self.peer = _address(self.connection)
        self.ending: tuple[int, str] | None = None  # the status with which the service ends the call, and its details
        self.in_session = False  # the end of its session ends it
        self._context = context
        self._codec = codec
        self._messages: deque[str | bytes] = deque()  # of one request, or the first audio
        self._complete = False  # the client sends no more
        self._stalled = False
        self._writing: asyncio.Future[None] | None = None  # the last response
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # For the port

    async def first(self, limit_s: float) -> JsonObject:
        """Wait for the first request, and return its fields besides the audio. Raise WireError if there is none."""
        try:
            request = await asyncio.wait_for(self._read(), limit_s)
        except asyncio.TimeoutError:
            raise bad(ErrorCode.IDLE, f"No request came within {limit_s:g} s of the call.") from None
        fields, audio = request or ({}, b"")
        if audio:
            self._messages.append(audio)
        return fields

    async def beginning(self, limit_s: float) -> bytes:
        """Wait for the first audio, which stays; it is empty if none comes. Raise WireError if it comes too late."""
        while not self._messages:
            try:
                request = await asyncio.wait_for(self._read(), limit_s)
            except asyncio.TimeoutError:
                raise bad(ErrorCode.IDLE, f"No audio came within {limit_s:g} s; send it while it is spoken.") from None
            if request is None:
                return b""
            if request[1]:
                self._put(*request)
        audio = self._messages[0]
        assert isinstance(audio, bytes)
        return audio

    def complete(self, audio: bytes = b"") -> None:
        """Note that no other request follows: the whole recording is there. `audio`: what was not taken of it."""
        self._complete = True
        if audio:
            self._messages.append(audio)
        self._messages.append(END)

    def leave(self) -> None:
        """Note that the call has ended, in any way."""
        if not self._over.done():
            self._over.set_result(None)

    async def settle(self, cut: Callable[[], None]) -> None:
        """Wait until the client has taken the last response: gRPC takes no status before.

        `cut`: what to do if it takes longer than a client may take; gRPC itself cannot end such a call.
        """
        while self._writing is not None and not self._writing.done():
            await asyncio.wait({self._writing}, timeout=0 if self._stalled else SEND_LIMIT_S)
            if not self._writing.done():
                self._stalled = True
                cut()
                await asyncio.wait({self._writing}, timeout=_LOOK_AGAIN_S)

    async def answer(self, data: bytes) -> None:
        """Send a response that is written already, and end the call."""
        await self._send(data, SEND_LIMIT_S)
        self.close()

    # For its dialect: websocket.py explains each member

    closing = property(lambda self: self._over.done())
    closed = closing
    agreed = property(lambda self: self._complete)
    goodbye = property(lambda self: False)

    @property
    def fault(self) -> Reason | None:
        """The word for the client's fault that ends the call; None if there is none."""
        return NOT_READ if self._stalled else None

    async def receive(self) -> str | bytes:
        """Wait for the next message of the client. Raise ConnectionEnded at the end."""
        while not self._messages:
            if self._complete:
                await asyncio.wait({self._over})
                raise ConnectionEnded
            try:
                request = await self._read()
            except WireError as wrong:
                self.close(status_of(wrong.code), wrong.message)
                raise ConnectionEnded from None
            if request is None:
                self._complete = True
                self._messages.append(END)
                continue
            self._put(*request)
        return self._messages.popleft()

    async def say(self, message: str, deadline: float | None = None) -> None:
        """Send one response, and wait until there is room for another. Raise NotRead or ConnectionEnded otherwise."""
        limit_s = SEND_LIMIT_S if deadline is None else deadline - asyncio.get_running_loop().time()
        await self._send(self._codec.write(message), limit_s)

    def interrupt(self) -> None:
        """Do nothing: no other connection takes the place of a call."""

    def ignore_rest(self) -> None:
        """Do nothing: what cannot be read ends the call."""

    def abort(self) -> None:
        """End the call."""
        self.leave()

    def close(self, code: int = 0, reason: str = "") -> asyncio.Task[None]:
        """End the call with this status, once. Everything but the status has been sent by then."""
        if not self._over.done():
            self.ending = code, reason
            self.leave()
        return asyncio.create_task(_done())

    async def drop(self, code: int, reason: str) -> None:
        """End the call, even if something is being sent."""
        self.close(code, reason)

    async def wait_until_closed(self) -> None:
        """Wait for nothing: what close() does is done at once."""

    async def wait_until_lost(self) -> None:
        """Wait until the call has ended."""
        await asyncio.wait({self._over})

    async def pause(self, seconds: float) -> None:
        """Wait this long before reading more, but not after the call has ended."""
        if seconds > 0:
            await asyncio.wait({self._over}, timeout=seconds)

    # Inside

    def _put(self, fields: JsonObject, audio: bytes) -> None:
        """Keep the parts of a request. What it asks for counts from the end of its own audio."""
        if audio:
            self._messages.append(audio)
        if fields:
            self._messages.append(encode(fields))

    async def _send(self, data: bytes, limit_s: float) -> None:
        if self._over.done():
            raise ConnectionEnded
        self._writing = asyncio.ensure_future(self._context.write(data))
        try:
            await self._unless_over(self._writing, max(0.0, limit_s))
        except asyncio.TimeoutError:
            self._stalled = True
            raise NotRead(SEND_LIMIT_S) from None

    async def _read(self) -> tuple[JsonObject, bytes] | None:
        """Wait for the next request; None after the last one."""
        reading = asyncio.ensure_future(self._context.read())
        try:
            data = await self._unless_over(reading, None)
        finally:
            reading.cancel()
        if data is grpc.aio.EOF:
            return None
        try:
            return self._codec.read(data)
        except Unreadable:
            raise bad(ErrorCode.BAD_MESSAGE, _UNREADABLE) from None

    async def _unless_over(self, task: asyncio.Future[_T], limit_s: float | None) -> _T:
        """Return the result of this task. Raise ConnectionEnded if the call ends before, and TimeoutError if late."""
        task.add_done_callback(_forget)
        waiting: set[asyncio.Future[Any]] = {task, self._over}
        await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if self._over.done():
            raise ConnectionEnded
        if not task.done():
            raise asyncio.TimeoutError
        try:
            return task.result()
        except (Exception, asyncio.CancelledError) as error:  # of gRPC, which has several for a call that is gone
            raise ConnectionEnded from error


def _forget(task: asyncio.Future[Any]) -> None:
    """Take the failure of a task that nobody waits for any more: it is no failure of ours."""
    if not task.cancelled():
        task.exception()


def _address(peer: str) -> str:
    """Return the address in what gRPC calls a peer, such as ipv4:127.0.0.1:5000 or ipv6:%5B::1%5D:5000."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


async def _done() -> None:
    return
