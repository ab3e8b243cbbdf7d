"""The client of a session that speaks a dialect, the format of another service, also with audio in a container.

To the driver it looks like a native websocket, so limits, quotas, the replay after a failure and the shutdown are the
same code. The dialect translates in both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from streamer.base.codes import ErrorCode
from streamer.base.events import Starting
from streamer.bridge.access.quotas import UploadLimits
from streamer.bridge.driver import Line
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.bridge.session.messages import Numbered
from streamer.bridge.uploads.decoding import DecoderProblem, Decoding, NotTaken, Opened, Samples
from streamer.wire.dialects.dialect import FLUSH, STOP, Aside, Dialect, Hangup, Reply, Step
from streamer.wire.upload import Problem


class Socket(Line, Protocol):
    """What a dialect is spoken over: a websocket, or a bare connection, whose messages are bytes divided anywhere."""

    async def say(self, message: str, deadline: float | None = None) -> None: ...


class DialectClient:
    """The websocket of one session in a foreign format. Call release() at the end."""

    def __init__(self, websocket: Socket, dialect: Dialect, feed: ContainerFeed | None, steps: Iterable[Step]) -> None:
        """`feed`: decodes the audio, if it comes in a container. `steps`: those before the client's next message."""
        self.pass_on: Callable[[str, Mapping[str, object]], None] | None = None  # takes asides
        self._websocket = websocket
        self._dialect = dialect
        self._feed = feed
        self._steps: Iterator[Step] = iter(steps)
        self._sending = asyncio.Lock()  # replies come from another task than messages

    async def release(self) -> None:
        """Stop the decoder, if there is one."""
        if self._feed is not None:
            await self._feed.release()

    # For the driver

    closing = property(lambda self: self._websocket.closing)
    closed = property(lambda self: self._websocket.closed)
    agreed = property(lambda self: self._websocket.agreed)
    goodbye = property(lambda self: self._websocket.goodbye)
    fault = property(lambda self: self._websocket.fault)
    unintelligible = property(lambda self: self._websocket.unintelligible)

    async def receive(self) -> str | bytes:
        """Wait for the next message or audio for the session. Raise ConnectionEnded at the end."""
        while True:
            for step in self._steps:
                if isinstance(step, (str, bytes)):
                    return step
                await self._do(step)
            if self._feed is not None:
                self._steps = iter((await self._feed.next(self._websocket, self._dialect),))
            else:
                self._steps = iter(self._dialect.receive(await self._websocket.receive()))

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Send messages in the format of the client. Raise NotRead or ConnectionEnded if that fails."""
        deadline = asyncio.get_running_loop().time() + SEND_LIMIT_S
        for message in messages:
            if isinstance(message.message, Starting):  # other formats have no such message
                continue
            for text in self._dialect.tell(message.message):
                async with self._sending:
                    await self._websocket.say(text, deadline)
            on_sent(message)
        return True

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """Begin to close the websocket."""
        return self._websocket.close(*self._dialect.close(code, reason))

    async def drop(self, code: int, reason: str) -> None:
        """Close the websocket, even if something is being sent."""
        await self._websocket.drop(*self._dialect.close(code, reason))

    async def wait_until_closed(self) -> None:
        """Wait until it is closed, if close() was called."""
        await self._websocket.wait_until_closed()

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost."""
        await self._websocket.wait_until_lost()

    async def pause(self, seconds: float) -> None:
        """Wait this long before reading more messages."""
        await self._websocket.pause(seconds)

    def ignore_rest(self) -> None:
        """Ignore all further input."""
        self._websocket.ignore_rest()

    def interrupt(self) -> None:
        """Stop a send() that is under way."""
        self._websocket.interrupt()

    def abort(self) -> None:
        """Cut it off."""
        self._websocket.abort()

    async def _do(self, step: Reply | Hangup | Aside) -> None:
        if isinstance(step, Aside):
            if self.pass_on is not None:
                self.pass_on(step.type, step.data)
            return
        if isinstance(step, Hangup):
            self._websocket.close(step.code, step.reason)
            await self._websocket.wait_until_closed()
            raise ConnectionEnded
        try:
            async with self._sending:
                await self._websocket.say(step.text)
        except NotRead:
            self._websocket.abort()
            raise ConnectionEnded from None


class CallClient(DialectClient):
    """The client of a call, which is told nothing, and hangs up when it likes: its session goes on to its last word."""

    def __init__(self, websocket: Socket, dialect: Dialect) -> None:
        super().__init__(websocket, dialect, None, dialect.greet())
        self._begun = False
        self._alone = False  # the websocket is gone
        self._over = asyncio.Event()  # and so is the session
        self._end: asyncio.Task[None] | None = None

    closing = property(lambda self: self._end is not None or (not self._alone and self._websocket.closing))
    closed = property(lambda self: self._end is not None and self._end.done())
    agreed = property(lambda self: self._alone or self._websocket.agreed)
    goodbye = property(lambda self: self._alone or self._websocket.goodbye)
    fault = property(lambda self: None if self._alone else self._websocket.fault)
    unintelligible = property(lambda self: not self._alone and self._websocket.unintelligible)

    async def receive(self) -> str | bytes:
        """Return the next message or audio for the session, and the end of it when the websocket ends."""
        if not self._alone:
            try:
                taken = await super().receive()
            except ConnectionEnded:
                if not self._begun or self._end is not None:
                    raise
                self._alone = True
                self._steps = iter(self._dialect.rest())
            else:
                self._begun = True
                return taken
        for step in self._steps:
            if isinstance(step, (str, bytes)):
                return step
        await self._over.wait()
        raise ConnectionEnded

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Note that messages are sent: nobody reads them here."""
        for message in messages:
            on_sent(message)
        return True

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """Begin to close the websocket, if it is still there."""
        if self._end is None:
            self._over.set()
            self._end = asyncio.create_task(_done()) if self._alone else super().close(code, reason)
        return self._end

    async def drop(self, code: int, reason: str) -> None:
        """Close the websocket, even if something is being sent."""
        self._over.set()
        if not self._alone:
            await super().drop(code, reason)

    async def wait_until_closed(self) -> None:
        """Wait until it is closed, if close() was called."""
        await (self._over.wait() if self._alone else super().wait_until_closed())

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost."""
        await (self._over.wait() if self._alone else super().wait_until_lost())


async def _done() -> None:
    return


# Decodes the audio of a websocket that comes in a container, such as WebM, in a separate process while it arrives.

_MOST_WAITING: Final = 4  # steps that wait for the session
# A flush is for all audio that was sent before it, so it waits until the decoder has decoded that audio.
_SETTLING_LIMIT_S: Final = 10.0
_CHECK_EVERY_S: Final = 0.02  # whether the decoder has done so
# Some formats can be decoded only when the whole recording has come. Until then, the session gets a step without audio
# at this interval, because its client is not idle.
_KEEPALIVE_EVERY_S: Final = 2.0


class ContainerFeed:
    """Turns the messages of a client and the audio of its container into steps, in order. Call release() at the end."""

    def __init__(self, limits: UploadLimits, *, separate: bool) -> None:
        self._limits = limits
        self._separate = separate
        self._steps: asyncio.Queue[Step | BaseException] = asyncio.Queue(_MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._decoding: Decoding | None = None
        self._decoded_at = 0.0
        self._room = asyncio.Event()  # the session has taken the audio that was decoded last
        self._room.set()
        self._kept_alive_at = 0.0
        self._over = False  # the decoder has ended
        self._ending = False  # the client has ended its audio
        self._failure: BaseException | None = None

    async def next(self, websocket: Socket, dialect: Dialect) -> Step:
        """Wait for the next step. Raise ConnectionEnded at the end."""
        if not self._tasks:
            self._begin(self._listen(websocket, dialect))
        if self._failure is not None:
            raise self._failure
        step = await self._steps.get()
        if isinstance(step, BaseException):
            self._failure = step
            raise step
        return step

    async def release(self) -> None:
        """Stop both tasks and the decoder."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._decoding is not None:
            await self._decoding.finish()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(self._guard(work)))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # also ConnectionEnded: next() raises it
            await self._steps.put(error)

    async def _listen(self, websocket: Socket, dialect: Dialect) -> None:
        """Take the messages of the client."""
        while True:
            for step in dialect.receive(await websocket.receive()):
                if isinstance(step, bytes):
                    await self._take(step, dialect)
                elif step == STOP and self._decoding is not None and not self._over:
                    self._ending = True
                    self._decoding.end()  # `stop` follows when the rest is decoded
                else:
                    if step == FLUSH:
                        await self._settle()
                    await self._steps.put(step)

    async def _take(self, data: bytes, dialect: Dialect) -> None:
        if self._over:
            return
        if self._decoding is None:
            try:
                self._decoding = await Decoding.begin(self._limits, None, separate=self._separate)
            except OSError:
                self._over = True
                reason = "The service cannot decode a recording now; try again later."
                await self._put(dialect.undecodable(Problem(ErrorCode.BUSY, reason)))
                return
            self._begin(self._decode(self._decoding, dialect))
        with suppress(NotTaken):  # the decoder has ended, and its last frame says why
            await self._decoding.feed(data)
        now = asyncio.get_running_loop().time()
        if now - max(self._decoded_at, self._kept_alive_at) >= _KEEPALIVE_EVERY_S:
            self._kept_alive_at = now
            await self._put(dialect.waiting())

    async def _decode(self, decoding: Decoding, dialect: Dialect) -> None:
        """Take the frames of the decoder."""
        loop = asyncio.get_running_loop()
        while True:
            frame = await decoding.next()
            self._decoded_at = loop.time()
            if isinstance(frame, Samples):
                self._room.clear()
                await self._steps.put(frame.pcm)
                self._room.set()
                self._decoded_at = loop.time()
            elif isinstance(frame, Opened):
                await self._put(dialect.opened(frame.channels))
            else:
                self._over = True
                if isinstance(frame, DecoderProblem):
                    await self._put(dialect.undecodable(Problem(ErrorCode(frame.code), frame.message)))
                elif self._ending:  # otherwise the recording has an end of its own, and the client will still end it
                    await self._steps.put(STOP)
                return

    async def _settle(self) -> None:
        """Wait until the decoder has decoded all that it can for now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLING_LIMIT_S
        while self._decoding is not None and not self._over and loop.time() < deadline:
            if not self._room.is_set():
                # While the session takes nothing, as in a recovery, the decoder waits too. This time does not count.
                blocked_at = loop.time()
                await self._room.wait()
                deadline += loop.time() - blocked_at
            elif self._decoding.at_rest():
                return
            await asyncio.sleep(_CHECK_EVERY_S)

    async def _put(self, steps: Iterable[Step]) -> None:
        for step in steps:
            await self._steps.put(step)
