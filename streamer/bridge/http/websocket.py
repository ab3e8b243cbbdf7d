"""A websocket: its handler receives and sends messages, and closes it, all in bounded time.

A session may use several websockets, one after another. driver.py knows the present one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context

from streamer.base.codes import Reason
from streamer.bridge.http.channel import NOT_READ, Channel
from streamer.bridge.http.messages import Messages
from streamer.bridge.http.request import Request
from streamer.bridge.session.messages import Numbered
from streamer.wire.errors import CloseCode
from streamer.wire.native import close_reason

# Messages that may wait for the reader. At the high mark the socket is not read any further, until the low mark.
FRAMES_HIGH, FRAMES_LOW = 4, 1
# The same mark in characters and bytes of all waiting messages, because some formats have messages of many MiB.
LENGTH_HIGH = 4 * 1024 * 1024
# The bytes that are parsed before the marks are checked again: in memory, messages take more than their tiny frames.
_SLICE = 16 * 1024
# The connection of a client that does not read for this time is closed, because its results would have to be kept. The
# limit is shorter than Triton's idle limit, because the model gets no requests meanwhile.
SEND_LIMIT_S = 10.0
# How long a client may take to answer a close; then it is cut off.
CLOSE_LIMIT_S = 3.0
# TLS cannot be closed in one direction. So further data of the client is discarded for this time, until it reads the
# close.
_LINGER_S = 1.0
# Pings keep proxies from closing a silent session. Nothing waits for their answers, which may come late, behind unread
# audio: the session's own idle limit finds dead clients.
PING_EVERY_S = 20.0
# Longer messages are not held, and no more of them than this.
_LONGEST_HELD, _MOST_HELD = 16 * 1024, 16
Chunk = tuple[bytes, float]
"""Audio, and when it came, by time.monotonic()."""
TakeAudio = Callable[[Sequence[Chunk]], bool]
"""Takes audio, and says whether it was possible."""


class ConnectionEnded(Exception):
    """The websocket is closed or being closed: nothing more can be received or sent."""


class NotRead(Exception):
    """The client has not read within a limit."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"nothing was read for {limit_s:g} s")
        self.limit_s = limit_s


class WebSocket(Channel):
    """One websocket from its handshake to its end. It also knows why it ended."""

    def __init__(
        self,
        request: Request,
        subprotocol: str | None,
        largest: int,
        on_drop: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`largest`: the most bytes of a message. `on_failure` is called with errors of the service itself."""
        super().__init__(on_drop)
        self.request = request
        self.subprotocol = subprotocol
        self._on_failure = on_failure
        self._frames = Messages(largest)
        self._messages: deque[str | bytes] = deque()
        self._full = False  # too many messages wait, so no more are parsed
        self._reader: asyncio.Future[None] | None = None
        self._take_audio: TakeAudio | None = None  # while the reader waits, and in its context
        self._context = copy_context()
        self._held: list[Chunk] = []  # audio that the reader does not want yet
        self._held_bytes = self._wanted_bytes = 0
        self._stalled = False
        self._passing = False  # another worker gets the connection
        self._broken = False  # by a fault of the service
        self._closing: asyncio.Task[None] | None = None
        self._ping: asyncio.TimerHandle | None = None

    def take_over(self, former: Channel, data: bytes) -> None:
        """Continue with another channel's connection, and with the data that was read from it."""
        self.inherit(former)
        self._ping = self._loop.call_later(PING_EVERY_S, self._send_ping)
        self.data_received(data)

    # For its handler

    @property
    def closing(self) -> bool:
        """Whether close() was called."""
        return self._closing is not None

    @property
    def closed(self) -> bool:
        """Whether close() was called and is done."""
        return self._closing is not None and self._closing.done()

    @property
    def fault(self) -> Reason | None:
        """The word for the client's fault that ends the websocket; None if there is none."""
        return NOT_READ if self._stalled else self._frames.fault

    @property
    def unintelligible(self) -> bool:
        """Whether the client sent something invalid. The websocket is not closed yet, so messages can still be sent."""
        return self._frames.verdict is not None and not self.lost

    def ignore_rest(self) -> None:
        """Ignore all further input. receive() returns no more messages, and raises when the connection ends."""
        self._frames.forgive()

    @property
    def agreed(self) -> bool:
        """Whether the client sent a close, or answered ours."""
        return self._frames.agreed

    @property
    def goodbye(self) -> bool:
        """Whether the client closed the websocket on purpose."""
        return self._frames.goodbye

    async def receive(self, take: TakeAudio | None = None) -> str | bytes:
        """Wait for the next message of the client, in one task at a time. Raise ConnectionEnded at the end.

        `take` gets audio that comes while the task waits, so that the task does not run for each chunk. It returns
        whether it has taken the audio; if not, the task gets it. The task also gets the errors of `take`.
        """
        while not self._messages:
            if not self._unread and (self.lost or self._frames.over):
                raise ConnectionEnded
            assert self._reader is None, "two tasks wait for messages of the same websocket"
            self._reader = self._loop.create_future()
            self._take_audio, self._context = take, copy_context()
            try:
                await self._reader
            finally:
                self._reader = self._take_audio = None
                self._messages.extend(self._return_held())
        message = self._messages.popleft()
        if self._full and len(self._messages) <= FRAMES_LOW:
            self._full = False
            self._parse()
        return message

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Send messages in order, and call `on_sent` after each. Return False if interrupted."""
        self._interrupted = False
        deadline = self._loop.time() + SEND_LIMIT_S
        for message in messages:
            await self.say(message.text, deadline)
            if self._interrupted:
                return False
            on_sent(message)
        return True

    def hold(self, wanted: int) -> None:
        """Hold audio until so many bytes of it wait, as if it had not been read yet."""
        self._wanted_bytes = wanted

    @property
    def held(self) -> int:
        """The bytes of audio that are held."""
        return self._held_bytes

    def release(self) -> None:
        """Give the reader the audio that is held."""
        if self._held and (messages := self._pass_on()):
            self._messages.extend(messages)
            self._wake_reader()

    @property
    def direct(self) -> Callable[[Sequence[Numbered], Callable[[Numbered], None]], None] | None:
        """Sends messages like send(), but without waiting. None if there is no room for them."""
        return self._send_now if self._frames.open and not (self.lost or self._clogged) else None

    async def say(self, message: str | bytes, deadline: float | None = None) -> None:
        """Send one message, and wait until there is room for another. Raise NotRead or ConnectionEnded otherwise."""
        if self.lost or not self._frames.open:
            await asyncio.wait({self._lost})  # until its end is known; every close has its limit
            raise ConnectionEnded
        if deadline is None:
            self._interrupted = False
            deadline = self._loop.time() + SEND_LIMIT_S
        if isinstance(message, str):
            self._frames.text(message)
        else:
            self._frames.binary(message)
        self._flush()
        if not await self.drain(deadline):
            raise NotRead(SEND_LIMIT_S)
        if self.lost:
            raise ConnectionEnded

    def interrupt(self) -> None:
        """Stop a send() that is under way."""
        self._interrupted = True
        self._wake_writer()

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """Begin to close the websocket, once. The returned task ends when it is closed."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code, reason))
        return self._closing

    async def wait_until_closed(self) -> None:
        """Wait until it is closed, if close() was called."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def pause(self, seconds: float) -> None:
        """Wait this long before reading more messages, but not after the connection is lost."""
        if seconds > 0:
            await asyncio.wait({self._lost}, timeout=seconds)

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost."""
        await asyncio.wait({self._lost})

    async def drop(self, code: int, reason: str) -> None:
        """Close the websocket, even if something is being sent."""
        self.interrupt()
        if self._closing is not None:
            self._closing.cancel()
        await self._close(*(self._frames.verdict or (code, reason)))

    async def finish(self) -> None:
        """Close it normally, or with the code of the client's fault, unless it is being closed already."""
        self.close(*(self._frames.verdict or (CloseCode.DONE, "")))
        await self.wait_until_closed()

    # Another process may get the connection

    @property
    def enciphered(self) -> bool:
        """Whether the connection uses TLS, whose state cannot leave this process."""
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    @property
    def unsent(self) -> bool:
        """Whether something waits to be written."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def duplicate(self) -> socket.socket:
        """Return another descriptor of the connection."""
        assert self._transport is not None
        return socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))

    def pause_for_passing(self) -> bytes | None:
        """Stop reading. Return what was read and not parsed; None if the connection cannot be given away now."""
        divided = self._messages or self._held or not self._frames.at_rest
        if self.lost or self.unsent or divided or self._transport is None or self._closing is not None:
            return None
        self._passing = True
        self.balance()
        rest = bytes(self._unread)
        self._unread.clear()
        return rest

    def go_on_reading(self, rest: bytes) -> None:
        """Read again what was read, and the rest, because the connection was not given away."""
        if self._passing and self._transport is not None:
            self._passing = False
            self._unread[:0] = rest
            self._parse()

    def let_go(self) -> None:
        """Use the connection no more: another process or object has it. To its handler it is lost."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.set_protocol(asyncio.Protocol())
            transport.abort()
        self.connection_lost(None)

    # Called by asyncio

    def data_received(self, data: bytes) -> None:
        """Take data of the client."""
        if self._unread or len(data) > _SLICE or not self._may_parse:
            self._unread += data
            self._parse()
        elif data:
            self._take(data)
            self.balance()

    def eof_received(self) -> bool:
        """Note that the client has ended its side, which ends the whole connection."""
        self.end_by(CLOSE_LIMIT_S)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is lost. Messages that arrived before can still be received."""
        super().connection_lost(exc)
        if self._ping is not None:
            self._ping.cancel()
        self._parse()
        self._wake_reader()

    def resume_writing(self) -> None:
        """Parse more input, because the client has read and there is room for pongs again."""
        super().resume_writing()
        self._parse()

    @property
    def wants_more(self) -> bool:
        """Whether the socket should be read."""
        return not self._passing and (self._frames.deaf or (self._may_parse and not self._unread))

    def note_stall(self) -> None:
        """Note that the client does not read, just before it is cut off."""
        self._stalled = True

    # Inside

    @property
    def _may_parse(self) -> bool:
        """Whether more input can be parsed: there is room for messages and pongs, or the input is ignored."""
        if self._passing:
            return False
        if self._frames.deaf:
            return True
        return (self.lost or not self._clogged) and not (self._full and self._frames.open)

    @property
    def _overfull(self) -> bool:
        """Whether too much waits for the reader, so that no more should be parsed."""
        waiting = self._messages
        return len(waiting) >= FRAMES_HIGH or (len(waiting) > 0 and sum(map(len, waiting)) > LENGTH_HIGH)

    def _parse(self) -> None:
        while self._unread and self._may_parse:
            piece = bytes(self._unread[:_SLICE])
            del self._unread[:_SLICE]
            self._take(piece)
        self.balance()

    def _take(self, data: bytes) -> None:
        # After a close was sent, further messages of the client do not matter.
        listening = self._frames.open and not self._frames.deaf
        try:
            messages = self._frames.feed(data)
            if self._frames.failure is not None:
                raise self._frames.failure
        except Exception as error:
            if not self._broken:
                self._broken = True
                self._on_failure(error)
                if self._frames.open:
                    self._frames.close(CloseCode.FAILED, "the service failed")
            messages = []
        if listening:
            if self._take_audio is not None and not self._messages:
                messages = self._give(messages)
            self._messages.extend(messages)
            self._full = self._full or self._overfull
        self._flush()
        if self._messages or self._frames.over:
            self._wake_reader()
        if self._broken:
            self.end_by(_LINGER_S)

    def _give(self, messages: list[str | bytes]) -> list[str | bytes]:
        """Hold audio, or give it to the reader without waking it. Return the messages that it must be woken for."""
        now = time.monotonic()
        for number, message in enumerate(messages):
            if isinstance(message, str) or len(message) > _LONGEST_HELD:
                return self._pass_on() + messages[number:]
            self._held.append((message, now))
            self._held_bytes += len(message)
        if self._held_bytes < self._wanted_bytes and len(self._held) < _MOST_HELD:
            return []
        return self._pass_on()

    def _pass_on(self) -> list[str | bytes]:
        """Give the reader the audio that is held, without waking it. Return it if the reader must be woken for it."""
        take, reader, chunks = self._take_audio, self._reader, self._held
        if not chunks:
            return []
        if take is None or reader is None or reader.done():
            return self._return_held()
        self._held, self._held_bytes = [], 0
        try:
            if not self._context.run(take, chunks):
                return [chunk for chunk, _ in chunks]
        except Exception as error:
            reader.set_exception(error)
        return []

    def _return_held(self) -> list[str | bytes]:
        chunks, self._held, self._held_bytes = self._held, [], 0
        return [chunk for chunk, _ in chunks]

    def _flush(self) -> None:
        data, end = self._frames.output()
        self.write(data)
        if end and self._transport is not None:
            # A client that still sends must not get a reset before it has read the close.
            if self.half_close():
                self.end_by(CLOSE_LIMIT_S)
            elif self._frames.agreed:
                self._transport.close()
                self.end_by(CLOSE_LIMIT_S)
            else:
                self.end_by(_LINGER_S)

    def _send_now(self, messages: Sequence[Numbered], on_sent: Callable[[Numbered], None]) -> None:
        for message in messages:
            self._frames.text(message.text)
        self._flush()
        for message in messages:
            on_sent(message)

    async def _close(self, code: int, reason: str) -> None:
        if self._frames.open and not self.lost:
            self._frames.close(code, close_reason(reason))
            self._flush()
            self._parse()
        if not self.lost:
            await asyncio.wait({self._lost}, timeout=CLOSE_LIMIT_S)
        if not self.lost:
            self.abort()
            await asyncio.wait({self._lost})

    def _send_ping(self) -> None:
        self._ping = self._loop.call_later(PING_EVERY_S, self._send_ping)
        # If the client has not read earlier data, a ping is of no use.
        if self._frames.open and not self._clogged:
            self._frames.ping()
            self._flush()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
