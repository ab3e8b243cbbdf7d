"""An open session of the native protocol, asynchronous. If a connection is lost, the session uses another one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, cast

from streamer.base.codes import ClientCode, ErrorCode
from streamer.client.connection import CLOSE_S, GIVE_UP_S, Connection, SessionError
from streamer.client.events import Event, Ready
from streamer.client.recovery import Dial, Message, Progress, Reopening
from streamer.client.sending import KEEPALIVE_S, Audio, Entry, KeptAudio, bytes_of, describe_audio
from streamer.wire.native import encode, name_of
from streamer.wire.options import Start

# The service closes a live session if 20 s of audio wait. Over a new connection the client first sends older audio
# again, and then what its caller could not give it meanwhile. So it sends at most this much ahead.
MOST_LIVE_MS: Final = 15_000
LIVE_PAUSE_S: Final = 0.05
# The service says why it closes a session, and the receiver reads that. So long the sender waits for the reason.
REASON_S: Final = 5.0
# With less audio than a step, the service waits for more and owes no answer.
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
        self._events: deque[Message] = deque()  # events that the caller has not read yet
        self._live = False
        self._stopping = False
        self._sending = asyncio.Lock()
        self._reconnecting = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._failure: SessionError | None = None  # the reason why there is no other connection
        self._ended = False  # all messages before the failure were read
        self._reached: object = None  # how far the service is, in audio and flushes
        self._waited_s = 0.0  # for messages that bring it no further, while it owes an answer

    async def start(
        self,
        options: Mapping[str, object],
        dial: Dial,
        *,
        resume: bool,
        restart: bool,
        after: Sequence[Mapping[str, object]] | None = None,
        pass_over: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the session on its first connection; `connect` does this. `dial` opens further connections.

        `pass_over`: let `dial` use another address of the service.

        `after`: the finals of an earlier session, behind which this one goes on. Its audio begins at `from_ms`.
        """
        start = describe_audio(options)
        progress = Progress(start, after)
        contexts = {"context": progress.contexts} if progress.contexts else {}
        ready = await self._connection.open({**options, **contexts})
        token = ready.get("token", "")
        self.ready = cast(Ready, ready)
        self._live = start.live
        kept = KeptAudio(start, progress.cuts_ms)
        self._kept, self._progress = kept, progress
        if after:
            self._events.extend(progress.restart(self.from_ms))
        if token:
            self._reopening = Reopening(
                dial, options, token, kept, progress, resume=resume, restart=restart, pass_over=pass_over
            )

    @property
    def from_ms(self) -> float:
        """The time at which the audio of the session begins, if it goes on behind an earlier one."""
        return self._kept.milliseconds(self._kept.offset(min(self._progress.cuts_ms)))

    async def send(self, audio: Audio) -> None:
        """Send audio: int16 mono 16 kHz, or as the options declare. Wait while the service does not read."""
        self._kept.add(bytes_of(audio))
        await self._catch_up()

    async def flush(self) -> None:
        """Ask for the final of all audio so far. The event `flushed` is the answer."""
        self._kept.flush()
        await self._catch_up()

    async def keepalive(self) -> None:
        """Keep the session open while there is no audio to send."""
        await self._send(self._connection, encode({"type": "keepalive"}))

    async def stop(self) -> None:
        """Say that there is no more audio. The remaining events follow."""
        self._stopping = True
        self._kept.stop()
        await self._catch_up()

    async def close(self) -> None:
        """Close the connection, even if messages are still on their way."""
        if self._reopening is not None:
            self._reopening.cancelled = True
        await self._connection.close(CLOSE_S if self._progress.done or self._live else GIVE_UP_S)
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._progress.done:
                raise StopAsyncIteration
            if self._ended:
                raise self._failure_copy()
            await self._receive()
        return cast(Event, self._events.popleft())

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _end_requested(self) -> bool:
        """Whether the client waits for the end of a segment that it asked for."""
        return self._stopping or self._kept.flushes > self._progress.flushes

    @property
    def _due(self) -> bool:
        """Whether the service owes an answer."""
        return self._end_requested or self._kept.given_ms - self._progress.heard_ms > LONGEST_STEP_MS

    async def _receive(self) -> None:
        """Take the next message, and put its events into the queue. Return without one if none comes in time."""
        connection, due = self._connection, self._due
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            message = await connection.receive(connection.patience_s)
        except SessionError as error:
            try:
                await self._reconnect(connection, error)
            except SessionError as failure:
                self._failure = failure
                self._pass_on(self._progress.release())
                self._ended = True
            return
        if connection is not self._connection:
            return  # this message comes again over the new connection
        waited_s = loop.time() - began
        if message is None:
            # A short wait means that another task has taken the message.
            if due and self._due and waited_s > connection.patience_s / 2:
                connection.overdue("has sent nothing")
            return
        self._pass_on(self._progress.receive(message))
        self._waited_s = self._waited_s + waited_s if due and not self._advances() else 0.0
        if self._waited_s > connection.patience_s:
            connection.overdue("has sent messages, but recognised nothing")

    def _advances(self) -> bool:
        """Return whether the service is further than when this was last called."""
        before, self._reached = self._reached, (self._progress.heard_ms, self._progress.flushes, self._progress.done)
        return self._reached != before

    def _pass_on(self, messages: Iterable[Message]) -> None:
        self._events.extend(messages)
        self._kept.answered(self._progress.flushes)
        self._kept.let_go(min(self._progress.cuts_ms))

    async def _catch_up(self) -> None:
        """Send all kept entries that were not sent yet. If a connection is lost, go on over another one."""
        async with self._sending:
            while (entry := self._kept.next()) is not None:
                connection = self._connection
                if self._live and not await self._may_send(connection):
                    continue
                # It is on its way from here on, even if the caller is cancelled while the service does not read. If the
                # connection is lost, the next one begins where the service has arrived.
                self._kept.sent()
                await self._send(connection, _message(entry))

    async def _may_send(self, connection: Connection) -> bool:
        """Wait until the service has recognised enough of the audio. Return False if there is another connection."""
        loop = asyncio.get_running_loop()
        active = loop.time()
        until = active + connection.patience_s
        while connection is self._connection and self._failure is None and loop.time() < until:
            if self._kept.sent_ms - self._progress.heard_ms <= MOST_LIVE_MS:
                break
            if loop.time() - active > KEEPALIVE_S:  # for the service it is the client that is silent
                await self._send(connection, encode({"type": "keepalive"}))
                active = loop.time()
            await asyncio.sleep(LIVE_PAUSE_S)
        return connection is self._connection

    async def _send(self, connection: Connection, message: str | bytes) -> None:
        """Send a message. If that fails, open another connection."""
        try:
            await connection.send(message)
        except SessionError as error:
            if error.code == ClientCode.CLOSED and not connection.service_ended(error):
                await self._wait_for_reason(connection)
            await self._reconnect(connection, error)

    async def _wait_for_reason(self, connection: Connection) -> None:
        """Wait until the receiver has read why this connection was closed, if somebody reads."""
        loop = asyncio.get_running_loop()
        until = loop.time() + REASON_S
        while connection is self._connection and loop.time() < until:
            if self._failure is not None or self._progress.done:
                break
            await asyncio.sleep(LIVE_PAUSE_S)

    async def _reconnect(self, connection: Connection, error: SessionError) -> None:
        """Replace this connection, which has ended. Raise SessionError if no other one can be opened."""
        async with self._reconnecting:
            if self._connection is not connection:
                return
            if self._failure is not None:
                raise self._failure_copy()
            if self._reopening is None or self._reopening.cancelled:
                raise error
            try:
                if connection.recogniser_failed(error):
                    self._progress.failures += 1
                ended = connection.service_ended(error) or self._was_not_heard(error)
                self._connection, events = await self._reopening.connection(error, ended=ended)
            except SessionError as failure:
                if failure is not error:
                    self._failure = failure
                raise
            self._events.extend(events)
        if self._catching_up is None or self._catching_up.done():
            # This needs its own task: the service may not read more audio before the caller has read its events.
            self._catching_up = asyncio.create_task(self._catch_up_quietly())
        await connection.close()

    def _was_not_heard(self, error: SessionError) -> bool:
        """Return whether the service took us for idle because the network has swallowed our audio."""
        return error.code == ErrorCode.IDLE and self._kept.given_ms - self._progress.heard_ms > LONGEST_STEP_MS

    def _failure_copy(self) -> SessionError:
        """Return the failure as a new exception, because each task must get its own."""
        assert self._failure is not None
        error = SessionError(self._failure.code, str(self._failure))
        error.__cause__ = self._failure
        return error

    async def _catch_up_quietly(self) -> None:
        with suppress(SessionError):  # the reader of the events gets the same error
            await self._catch_up()


def _message(entry: Entry) -> str | bytes:
    return entry if isinstance(entry, bytes) else encode({"type": name_of(entry)})
