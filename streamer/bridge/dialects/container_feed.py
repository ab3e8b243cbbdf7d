"""The audio of a websocket that comes in a container, such as WebM: decoded in a process of its own while it arrives.

One task takes messages of the client and feeds the decoder, another takes what it decodes. Both wait while the session
does not read, so nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final

from streamer.bridge.access.upload_limits import UploadLimits
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.uploads.decoding import DecoderProblem, Decoding, NotTaken, Opened, Samples
from streamer.wire.dialects.dialect import FLUSH, STOP, Dialect, Step
from streamer.wire.upload import Problem

# Steps that wait for the session.
_MOST_WAITING: Final = 4
# A flush is about all audio that was sent, so the decoder gets this long to decode it. It is looked at so often.
_LONGEST_SETTLING_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.02
# Some formats are decoded only when all of them has come. Meanwhile their client is not idle.
_STIR_EVERY_S: Final = 2.0


class ContainerFeed:
    """Turns the messages of a client and the audio of its container into steps, in order. Call release() at the end."""

    def __init__(self, limits: UploadLimits, *, separate: bool) -> None:
        self._limits = limits
        self._separate = separate
        self._steps: asyncio.Queue[Step | BaseException] = asyncio.Queue(_MOST_WAITING)
        self._tasks: list[asyncio.Task[None]] = []
        self._decoding: Decoding | None = None
        self._decoded_at = 0.0
        self._taken = asyncio.Event()  # the session has taken what the decoder gave last
        self._taken.set()
        self._stirred_at = 0.0
        self._over = False  # the decoder gives nothing more
        self._ending = False  # the client has ended its audio
        self._failure: BaseException | None = None

    async def next(self, websocket: WebSocket, dialect: Dialect) -> Step:
        """Wait for the next step. ConnectionEnded at the end."""
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
        """End everything, whatever is under way."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._decoding is not None:
            await self._decoding.finish()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(self._guarded(work)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # also ConnectionEnded: whoever waits for the next step gets it
            await self._steps.put(error)

    async def _listen(self, websocket: WebSocket, dialect: Dialect) -> None:
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
                why = "The service cannot decode a recording now; try again later."
                await self._put(dialect.undecodable(Problem("busy", why)))
                return
            self._begin(self._decode(self._decoding, dialect))
        with suppress(NotTaken):  # it has ended, and has said why
            await self._decoding.feed(data)
        now = asyncio.get_running_loop().time()
        if now - max(self._decoded_at, self._stirred_at) >= _STIR_EVERY_S:
            self._stirred_at = now
            await self._put(dialect.waiting())

    async def _decode(self, decoding: Decoding, dialect: Dialect) -> None:
        """Take what the decoder gives."""
        loop = asyncio.get_running_loop()
        while True:
            frame = await decoding.next()
            self._decoded_at = loop.time()
            if isinstance(frame, Samples):
                self._taken.clear()
                await self._steps.put(frame.pcm)
                self._taken.set()
                self._decoded_at = loop.time()
            elif isinstance(frame, Opened):
                await self._put(dialect.opened(frame.channels))
            else:
                self._over = True
                if isinstance(frame, DecoderProblem):
                    await self._put(dialect.undecodable(Problem(frame.code.value, frame.message)))
                elif self._ending:  # otherwise the recording knows its own length, and its client has yet to say so
                    await self._steps.put(STOP)
                return

    async def _settle(self) -> None:
        """Wait until the decoder has nothing more to give for now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LONGEST_SETTLING_S
        while self._decoding is not None and not self._over and loop.time() < deadline:
            if not self._taken.is_set():
                # While the session takes nothing, as during a recovery, the decoder waits too, and has more to give.
                blocked_at = loop.time()
                await self._taken.wait()
                deadline += loop.time() - blocked_at
            elif self._decoding.at_rest():
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _put(self, steps: Iterable[Step]) -> None:
        for step in steps:
            await self._steps.put(step)
