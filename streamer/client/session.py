"""An open session of the native protocol, asynchronous: audio in, events out, over as many connections as it takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, cast

from streamer.client.connection import Connection, SessionError
from streamer.client.events import Event, Ready
from streamer.client.kept_audio import Entry, KeptAudio
from streamer.client.progress import Message, Progress
from streamer.client.reopening import Dial, Reopening
from streamer.client.sending import Audio, declared
from streamer.wire.native import encode, name_of
from streamer.wire.options import Start

# What a service that shuts down says after its last finals follows at once.
DOUBT_S: Final = 0.3
# What was given before a connection began is sent over it at once; but the service closes a live session when 20 s wait
# there.
MOST_LIVE_MS: Final = 15_000
LIVE_PAUSE_S: Final = 0.05
# What is less than a step waits for more.
LONGEST_STEP_MS: Final = 1_000


class Session:
    """An open session: send audio while iterating over its events."""

    def __init__(self, connection: Connection) -> None:
        self.url = connection.url
        self.ready: Ready = cast(Ready, {})
        self._connection = connection
        self._reopening: Reopening | None = None
        self._kept = KeptAudio(Start())
        self._progress = Progress(Start())
        self._told: deque[Message] = deque()  # what nobody has read yet
        self._doubt_until = 0.0
        self._live = False
        self._stopping = False
        self._sending = asyncio.Lock()
        self._mending = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._behind_ms = 0.0  # audio up to here was given before the present connection began
        self._failure: SessionError | None = None  # why there is no other connection

    async def start(self, options: Mapping[str, Any], dial: Dial, *, resume: bool, restart: bool) -> None:
        """Opens the session on its first connection; `connect` has done it. `dial` makes the others."""
        ready = await self._connection.open(options)
        start, token = declared(options), ready.get("token", "")
        self.ready = cast(Ready, ready)
        self._live = start.live
        self._kept, self._progress = kept, progress = KeptAudio(start), Progress(start)
        if token:
            self._reopening = Reopening(dial, options, token, kept, progress, resume=resume, restart=restart)

    async def send(self, audio: Audio) -> None:
        """Sends audio (int16 mono 16 kHz unless declared otherwise); waits while the service reads no more."""
        self._kept.add(audio if isinstance(audio, bytes) else audio.astype("<i2", copy=False).tobytes())
        await self._catch_up()

    async def flush(self) -> None:
        """Asks that everything so far becomes final now; answered by a `flushed` event."""
        self._kept.flush()
        await self._catch_up()

    async def keepalive(self) -> None:
        """Keeps the session open while there is no audio."""
        await self._send(self._connection, encode({"type": "keepalive"}))

    async def stop(self) -> None:
        """Says that there is no more audio; the remaining events follow."""
        self._stopping = True
        self._kept.stop()
        await self._catch_up()

    async def close(self) -> None:
        """Closes the connection, whatever is still on its way."""
        if self._reopening is not None:
            self._reopening.unwanted = True
        await self._connection.close()
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._told:
            if self._progress.done:
                raise StopAsyncIteration
            await self._hear()
        return cast(Event, self._told.popleft())

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _asked(self) -> bool:
        """Whether the end of a segment was asked for, and has not come."""
        return self._stopping or self._kept.flushes > self._progress.flushes

    @property
    def _due(self) -> bool:
        """Whether the service has something to say."""
        return self._asked or self._kept.given_ms - self._progress.heard_ms > LONGEST_STEP_MS

    async def _hear(self) -> None:
        """Takes the next message, if one comes."""
        loop, connection, doubtful, due = (
            asyncio.get_running_loop(),
            self._connection,
            self._progress.doubtful,
            self._due,
        )
        began = loop.time()
        try:
            message = await connection.receive(self._doubt_until - began if doubtful else connection.patience_s)
        except SessionError as error:
            try:
                await self._mend(connection, error)
            except SessionError:
                self._tell(self._progress.believe())
                if not self._told:
                    raise
            return
        if connection is not self._connection:
            return  # what it said comes again
        if message is not None:
            self._tell(self._progress.receive(message, asked=self._asked))
            if not doubtful:
                self._doubt_until = loop.time() + DOUBT_S
        elif doubtful:
            self._tell(self._progress.believe())
        elif due and self._due and loop.time() - began > connection.patience_s / 2:  # nobody else has got it
            connection.overdue("has sent nothing")

    def _tell(self, messages: Iterable[Message]) -> None:
        self._told.extend(messages)
        self._kept.answered(self._progress.flushes)
        self._kept.let_go(min(self._progress.cuts_ms))

    async def _catch_up(self) -> None:
        """Sends what is kept and was not sent, over as many connections as it takes."""
        async with self._sending:
            while (entry := self._kept.next()) is not None:
                connection = self._connection
                if self._live and not await self._may_send(connection):
                    continue
                # What went into a connection that has been replaced meanwhile is sent again.
                if await self._send(connection, _message(entry)) and connection is self._connection:
                    self._kept.sent()

    async def _may_send(self, connection: Connection) -> bool:
        """Waits until the service has heard enough of what a live session sends again; False if it is another one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + connection.patience_s
        while connection is self._connection and self._failure is None and loop.time() < until:
            sent_ms = self._kept.sent_ms
            if sent_ms >= self._behind_ms or sent_ms - self._progress.heard_ms <= MOST_LIVE_MS:
                break
            await asyncio.sleep(LIVE_PAUSE_S)
        return connection is self._connection

    async def _send(self, connection: Connection, message: str | bytes) -> bool:
        """Whether it could be sent; if not, there is another connection now."""
        try:
            await connection.send(message)
        except SessionError as error:
            await self._mend(connection, error)
            return False
        return True

    async def _mend(self, connection: Connection, error: SessionError) -> None:
        """Another connection in the place of this one, which has ended; SessionError if there is none to be had."""
        async with self._mending:
            if self._connection is not connection:
                return
            if self._failure is not None:
                raise SessionError(self._failure.code, str(self._failure)) from self._failure
            if self._reopening is None or self._reopening.unwanted:
                raise error
            try:
                self._connection, events = await self._reopening.connection(error, ended=connection.ended(error))
            except SessionError as failure:
                if failure is not error:
                    self._failure = failure
                raise
            self._told.extend(events)
            self._behind_ms = self._kept.given_ms
        if self._catching_up is None or self._catching_up.done():
            # Beside the one who reads: the service may read no further before its events are read.
            self._catching_up = asyncio.create_task(self._catch_up_quietly())
        await connection.close()

    async def _catch_up_quietly(self) -> None:
        with suppress(SessionError):  # whoever reads is told
            await self._catch_up()


def _message(entry: Entry) -> str | bytes:
    return entry if isinstance(entry, bytes) else encode({"type": name_of(entry)})
