"""The client of a session that speaks a dialect, the format of another service.

To the driver it looks like a native websocket, so limits, quotas, the replay after a failure and the shutdown are the
same code. The dialect translates in both directions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from streamer.bridge.dialects.container_feed import ContainerFeed
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead, WebSocket
from streamer.bridge.session.outbox import Numbered
from streamer.wire.dialects.dialect import Dialect, Hangup, Reply, Step
from streamer.wire.errors import CloseCode
from streamer.wire.events import Starting


class DialectClient:
    """The websocket of one session in a foreign format. Call release() at the end."""

    def __init__(self, websocket: WebSocket, dialect: Dialect, feed: ContainerFeed | None) -> None:
        """`feed`: decodes the audio, if it comes in a container."""
        self._websocket = websocket
        self._dialect = dialect
        self._feed = feed
        self._steps: Iterator[Step] = iter(dialect.greet())
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

    async def drop(self, code: CloseCode, reason: str) -> None:
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

    async def _do(self, step: Reply | Hangup) -> None:
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
