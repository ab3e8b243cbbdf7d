"""A websocket of a session: what is sent over it is waited for so long, and so is its close.

A session may have several, one after another; driver.py knows which one it has at present.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from websockets.asyncio.server import ServerConnection

from streamer.wire.errors import CloseCode
from streamer.wire.native import close_reason, encode

# A client that does not read what it was sent for so long is closed: its results would have to be kept somewhere.
# Shorter than Triton's idle limit, because nothing is asked of the model meanwhile.
SEND_LIMIT_S = 10.0
# For a client to take its part in a close; then it is cut off.
CLOSE_LIMIT_S = 3.0
# Closes that the websocket library decides on, by the code that it sends.
_LIBRARY_CLOSES = {1007: "not_utf8", 1009: "too_large"}
# With these a client says goodbye: it wanted to go, with words or without. Any other end is a loss.
_GOODBYES = (1000, 1005)


class NotRead(Exception):
    """The client has not read for so many seconds what it was sent."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"nothing was read for {limit_s:g} s")
        self.limit_s = limit_s


class Connection:
    """Sends and closes in bounded time, and tells how it ended."""

    def __init__(self, websocket: ServerConnection) -> None:
        self._websocket = websocket
        self._sending: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def closing(self) -> bool:
        """Whether it was told to close."""
        return self._closing is not None

    @property
    def closed(self) -> bool:
        """Whether it was told to close, and has done so."""
        return self._closing is not None and self._closing.done()

    @property
    def fault(self) -> str:
        """What the client did that made the websocket library close; empty if it was something else."""
        protocol = self._websocket.protocol
        sent = protocol.close_sent
        return "" if sent is None or protocol.close_rcvd_then_sent else _LIBRARY_CLOSES.get(sent.code, "")

    @property
    def agreed(self) -> bool:
        """Whether the client sent a close, or answered ours."""
        return self._websocket.protocol.close_rcvd is not None

    @property
    def goodbye(self) -> bool:
        """Whether the client closed because it wanted to go."""
        received = self._websocket.protocol.close_rcvd
        return received is not None and received.code in _GOODBYES

    async def receive(self) -> str | bytes:
        """The next frame of the client, whenever it comes; ConnectionClosed."""
        return await self._websocket.recv()

    async def send(self, messages: Iterable[dict[str, Any]], sent: Callable[[dict[str, Any]], None]) -> bool:
        """Send them in order, each told to `sent`; False if that was interrupted. NotRead, ConnectionClosed."""
        sending = self._sending = asyncio.create_task(self._send(messages, sent))
        await asyncio.wait({sending}, timeout=SEND_LIMIT_S)
        if not sending.done():
            sending.cancel()
            raise NotRead(SEND_LIMIT_S)
        if sending.cancelled():
            return False
        sending.result()
        return True

    def interrupt(self) -> None:
        """Send no more of what is being sent."""
        if self._sending is not None:
            self._sending.cancel()

    def close(self, code: CloseCode, reason: str) -> asyncio.Task[None]:
        """Begin to close it, once; the task ends when it is closed."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(code, reason))
        return self._closing

    async def until_closed(self) -> None:
        """Returns when it has closed, if it was told to."""
        if self._closing is not None:
            await asyncio.wait({self._closing})

    async def drop(self, code: CloseCode, reason: str) -> None:
        """Close it whatever is under way; at once when it is closed already."""
        self.interrupt()
        if self._closing is not None:
            self._closing.cancel()
        await self._close(code, reason)

    async def _send(self, messages: Iterable[dict[str, Any]], sent: Callable[[dict[str, Any]], None]) -> None:
        for message in messages:
            await self._websocket.send(encode(message))
            sent(message)

    async def _close(self, code: CloseCode, reason: str) -> None:
        # The library's own limit begins when the close frame is written, which never happens when a client
        # does not read.
        try:
            await asyncio.wait_for(self._websocket.close(code, close_reason(reason)), CLOSE_LIMIT_S)
        except asyncio.TimeoutError:
            self._websocket.transport.abort()
