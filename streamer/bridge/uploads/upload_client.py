"""The client of the session of an uploaded recording: it starts, sends audio as it is decoded, and stops.

To the driver it looks like a websocket, so an upload is a session like any other: its audio is replayed if a Triton
dies, and it counts for the same limits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.bridge.session.outbox import Numbered
from streamer.bridge.uploads.decoding import DecoderProblem, Decoding, End, Samples
from streamer.wire.errors import CloseCode
from streamer.wire.events import ServerMessage, Starting
from streamer.wire.native import encode
from streamer.wire.upload import Problem

# The most messages that wait for the answer. At this limit the session waits, and ends if nobody reads for too long.
MOST_WAITING: Final = 64
_STOP: Final = encode({"type": "stop"})


class UploadClient:
    """Sends a recording to its session, and keeps the session's messages for the answer."""

    def __init__(self, decoding: Decoding, channels: int, start: str, longest_s: float) -> None:
        """`start`: the first message. `longest_s`: more audio than this is a problem."""
        self.problem: Problem | None = None
        self._decoding = decoding
        self._greeting = start
        self._remaining = round(longest_s * SAMPLE_RATE) * 2 * channels  # bytes
        self._longest_s = longest_s
        self._stopped = False
        self._closing: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._messages: deque[ServerMessage] = deque()
        self._news = asyncio.Event()  # next() has something to return
        self._room = asyncio.Event()
        self._interrupted = False

    # For the answer

    @property
    def over(self) -> bool:
        """Whether the session has ended and all of its messages were taken."""
        return self._over.is_set() and not self._messages

    async def next(self, limit_s: float) -> ServerMessage | None:
        """Return the next message; None after this limit, at the end, or after stir()."""
        if not self._messages and not self._over.is_set():
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), limit_s)
            except asyncio.TimeoutError:
                return None
        if not self._messages:
            return None
        message = self._messages.popleft()
        if len(self._messages) < MOST_WAITING:
            self._room.set()
        return message

    def stir(self) -> None:
        """Make next() return at once."""
        self._news.set()

    def fail(self, problem: Problem) -> None:
        """End the recording here. The decoded audio still becomes final."""
        if self.problem is None and not self._stopped:
            self.problem = problem
            self._decoding.kill()

    def leave(self) -> None:
        """Note that nobody waits for the answer any more."""
        self._decoding.kill()
        self._over.set()
        self._room.set()
        self._news.set()

    # For the driver

    closing = property(lambda self: self._closing is not None)
    closed = property(lambda self: self._closing is not None and self._closing.done())
    agreed = property(lambda self: self._over.is_set())
    goodbye = property(lambda self: self._over.is_set())
    fault = ""
    unintelligible = False

    async def receive(self) -> str | bytes:
        """Return `start`, then the audio as it is decoded, then `stop`."""
        if self._greeting:
            start, self._greeting = self._greeting, ""
            return start
        if not self._stopped and not self._over.is_set():
            frame = await self._decoding.next()
            if isinstance(frame, Samples) and self.problem is None:
                self._remaining -= len(frame.pcm)
                if self._remaining >= 0:
                    return frame.pcm
                self.fail(too_long(self._longest_s))
            elif isinstance(frame, DecoderProblem):
                self.problem = self.problem or Problem(frame.code.value, frame.message)
            elif not isinstance(frame, End):
                self.problem = self.problem or Problem("internal", "The decoder of the recording failed.")
            self._stopped = True
            return _STOP
        await self._over.wait()
        raise ConnectionEnded

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Keep messages for the answer, when there is room. Raise NotRead or ConnectionEnded if that fails."""
        self._interrupted = False
        for message in messages:
            if isinstance(
                message.message, Starting
            ):  # it must not be the first message, which decides the status of the answer
                continue
            while len(self._messages) >= MOST_WAITING and not self._over.is_set():
                self._room.clear()
                try:
                    await asyncio.wait_for(self._room.wait(), SEND_LIMIT_S)
                except asyncio.TimeoutError:
                    raise NotRead(SEND_LIMIT_S) from None
                if self._interrupted:
                    return False
            if self._over.is_set():
                raise ConnectionEnded
            self._messages.append(message.message)
            self._news.set()
            on_sent(message)
        return True

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """End the answer, because the session has sent all of its messages."""
        if self._closing is None:
            self.leave()
            self._closing = asyncio.create_task(_done())
        return self._closing

    async def wait_until_closed(self) -> None:
        """Wait until close() is called."""
        await self._over.wait()

    wait_until_lost = wait_until_closed

    async def pause(self, seconds: float) -> None:
        """Do nothing, because an upload sends no flushes."""

    async def drop(self, code: CloseCode, reason: str) -> None:
        """Close it, even if messages are being sent."""
        self.leave()

    def ignore_rest(self) -> None:
        """Do nothing, because an upload sends nothing invalid."""

    def interrupt(self) -> None:
        """Stop a send() that is under way."""
        self._interrupted = True
        self._room.set()

    def abort(self) -> None:
        """Cut it off."""
        self.leave()


def too_long(longest_s: float) -> Problem:
    """Make the problem of a recording that is too long."""
    why = f"The recording is longer than {longest_s:g} s, the maximum: cut it into several and send them one by one."
    return Problem("too_long", why)


async def _done() -> None:
    return
