"""An open session of the native protocol, asynchronous. It uses several connections if some of them are lost."""

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
from streamer.client.sending import Audio, bytes_of, declared
from streamer.wire.native import encode, name_of
from streamer.wire.options import Start

# If the service is shutting down, it says so within this time after its last finals.
DOUBT_S: Final = 0.3
# A new connection first sends again what was given before. The service closes a live session when 20 s of audio wait,
# so at most this much is sent ahead.
MOST_LIVE_MS: Final = 15_000
LIVE_PAUSE_S: Final = 0.05
# The service waits for more audio when it has less than a step.
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
        self._told: deque[Message] = deque()  # read from the service, but not by the caller yet
        self._doubt_until = 0.0
        self._live = False
        self._stopping = False
        self._sending = asyncio.Lock()
        self._reconnecting = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._behind_ms = 0.0  # the audio before this was given before the present connection began
        self._failure: SessionError | None = None  # why there is no other connection
        self._over = False  # whether all messages before the failure were read

    async def start(self, options: Mapping[str, Any], dial: Dial, *, resume: bool, restart: bool) -> None:
        """Open the session on its first connection; `connect` does this. `dial` opens further connections."""
        ready = await self._connection.open(options)
        start, token = declared(options), ready.get("token", "")
        self.ready = cast(Ready, ready)
        self._live = start.live
        self._kept, self._progress = kept, progress = KeptAudio(start), Progress(start)
        if token:
            self._reopening = Reopening(dial, options, token, kept, progress, resume=resume, restart=restart)

    async def send(self, audio: Audio) -> None:
        """Send audio: int16 mono 16 kHz unless declared otherwise. Waits while the service does not read."""
        self._kept.add(bytes_of(audio))
        await self._catch_up()

    async def flush(self) -> None:
        """Ask for everything so far to become final now. A `flushed` event is the answer."""
        self._kept.flush()
        await self._catch_up()

    async def keepalive(self) -> None:
        """Keep the session open while there is no audio."""
        await self._send(self._connection, encode({"type": "keepalive"}))

    async def stop(self) -> None:
        """Say that there is no more audio. The remaining events follow."""
        self._stopping = True
        self._kept.stop()
        await self._catch_up()

    async def close(self) -> None:
        """Close the connection, even if messages are still on their way."""
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
            if self._over:
                raise self._failed()
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
        """Whether the client waits for the end of a segment that it asked for."""
        return self._stopping or self._kept.flushes > self._progress.flushes

    @property
    def _due(self) -> bool:
        """Whether the service owes an answer."""
        return self._asked or self._kept.given_ms - self._progress.heard_ms > LONGEST_STEP_MS

    async def _hear(self) -> None:
        """Take the next message, if one comes."""
        connection, doubtful, due = self._connection, self._progress.doubtful, self._due
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            message = await connection.receive(self._doubt_until - began if doubtful else connection.patience_s)
        except SessionError as error:
            try:
                await self._reconnect(connection, error)
            except SessionError as failure:
                self._failure = failure
                self._tell(self._progress.believe())
                self._over = True
            return
        if connection is not self._connection:
            return  # the new connection brings this message again
        if message is not None:
            self._tell(self._progress.receive(message, asked=self._asked))
            if not doubtful:
                self._doubt_until = loop.time() + DOUBT_S
        elif doubtful:
            self._tell(self._progress.believe())
        elif due and self._due and loop.time() - began > connection.patience_s / 2:  # and no other task has taken it
            connection.overdue("has sent nothing")

    def _tell(self, messages: Iterable[Message]) -> None:
        self._told.extend(messages)
        self._kept.answered(self._progress.flushes)
        self._kept.let_go(min(self._progress.cuts_ms))

    async def _catch_up(self) -> None:
        """Send what was kept and not sent yet, over further connections if some are lost."""
        async with self._sending:
            while (entry := self._kept.next()) is not None:
                connection = self._connection
                if self._live and not await self._may_send(connection):
                    continue
                # If the connection was replaced meanwhile, the entry is sent again.
                if await self._send(connection, _message(entry)) and connection is self._connection:
                    self._kept.sent()

    async def _may_send(self, connection: Connection) -> bool:
        """Wait until the service has recognised enough of what a live session sends again. False if it was replaced."""
        loop = asyncio.get_running_loop()
        until = loop.time() + connection.patience_s
        while connection is self._connection and self._failure is None and loop.time() < until:
            sent_ms = self._kept.sent_ms
            if sent_ms >= self._behind_ms or sent_ms - self._progress.heard_ms <= MOST_LIVE_MS:
                break
            await asyncio.sleep(LIVE_PAUSE_S)
        return connection is self._connection

    async def _send(self, connection: Connection, message: str | bytes) -> bool:
        """Send a message. If that fails, open another connection and return False."""
        try:
            await connection.send(message)
        except SessionError as error:
            await self._reconnect(connection, error)
            return False
        return True

    async def _reconnect(self, connection: Connection, error: SessionError) -> None:
        """Replace this connection, which has ended. SessionError if no other one can be opened."""
        async with self._reconnecting:
            if self._connection is not connection:
                return
            if self._failure is not None:
                raise self._failed()
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
            # In a task of its own: the service may not read on before the caller has read its events.
            self._catching_up = asyncio.create_task(self._catch_up_quietly())
        await connection.close()

    def _failed(self) -> SessionError:
        """The failure as a new exception, one for each task that gets it."""
        assert self._failure is not None
        error = SessionError(self._failure.code, str(self._failure))
        error.__cause__ = self._failure
        return error

    async def _catch_up_quietly(self) -> None:
        with suppress(SessionError):  # the reader of the events gets it
            await self._catch_up()


def _message(entry: Entry) -> str | bytes:
    return entry if isinstance(entry, bytes) else encode({"type": name_of(entry)})
