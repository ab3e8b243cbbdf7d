"""Connects a session to its websocket and to the model: moves what the session hands out, and decides nothing.

There are two tasks. The reader takes frames, and waits while the session is full. Only the pump sends, to the client
and to the model. The pump goes on after the connection is lost, until the sequence has ended, and waits for the client
to return. A client returns over a new websocket, which another driver has accepted and hands over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from enum import Enum

from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.client_connection import Connection
from streamer.bridge.flush_pace import FlushPace
from streamer.bridge.holdings import Holdings
from streamer.bridge.http.websocket import ConnectionEnded, NotRead
from streamer.bridge.model_requests import ModelRequests
from streamer.bridge.resumption import Resumption
from streamer.bridge.session.endings import VANISHED
from streamer.bridge.session.outbox import Numbered
from streamer.bridge.session.session import Session
from streamer.bridge.states import States
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import SESSION, Metrics
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.upstreams.admission import Admission
from streamer.wire.errors import CloseCode
from streamer.wire.events import Ready
from streamer.wire.options import Resume

log = Log("streamer.bridge")

PIECE = 16 * 1024  # bytes of audio that are decoded at a time: two milliseconds of work for 2 s of G.711
MOST_FORMER = 3  # replaced connections of a session that are not closed yet; older ones are cut off


class DriverState(Enum):
    """How far the session has got. The session itself knows whether its client is connected."""

    BARRED = "barred"  # the connection may resume another session, but not open this one
    OPENING = "opening"  # the client has not received `ready`
    READY = "ready"  # the client has received `ready`, and may resume the session
    PASSED_ON = "passed on"  # the client resumed another session, which has the connection now
    ENDED = "ended"  # everything was given back


TRANSITIONS: Mapping[DriverState, tuple[DriverState, ...]] = {
    DriverState.BARRED: (DriverState.PASSED_ON, DriverState.ENDED),
    DriverState.OPENING: (DriverState.READY, DriverState.PASSED_ON, DriverState.ENDED),
    DriverState.READY: (DriverState.ENDED,),
    DriverState.PASSED_ON: (DriverState.ENDED,),
    DriverState.ENDED: (),
}


class SessionDriver:
    """Drives one session until both of its sides have ended, over one websocket or several."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        admission: Admission,
        metrics: Metrics,
        resumption: Resumption[SessionDriver],
        admittance: Admittance | None = None,
        *,
        key: str = "",
        barred: Denied | None = None,
        protocol: str = "native",
    ) -> None:
        """`key`: the name of the caller's key. `barred`: why the client may only resume a session, not open one.

        `protocol`: its name in metrics.
        """
        self.session = session
        self._states = States("driver", DriverState.OPENING if barred is None else DriverState.BARRED, TRANSITIONS)
        self._connection: Connection | None = connection
        self._resumption = resumption
        self._key = key
        self._barred = barred
        self._holdings = Holdings(admission, admittance)
        self._observed = SessionMetrics(session, metrics, protocol)
        self._failures = metrics.failures(SESSION)
        self._told = 0  # the number of the last message that was sent
        self._pace = FlushPace()
        self._former: list[Connection] = []  # replaced connections that are being closed
        self._closings: set[asyncio.Task[None]] = set()  # tasks that close connections, also replaced ones
        self._wake = asyncio.Event()  # something happened that the pump must handle
        self._room = asyncio.Event()  # the reader may go on
        self._requests = ModelRequests(session, self._holdings, self._observed, self._wake.set)

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""
        return self.session.parked

    @property
    def resumable(self) -> bool:
        """Whether the client may resume the session, over a new connection or in place of an older one."""
        return self.session.resumable

    @property
    def waiting(self) -> bool:
        """Whether the connection has no slot and may want one."""
        return not self._holdings.reservations and not self.parked

    @property
    def barred(self) -> bool:
        """Whether the connection may only resume a session, and has not done so yet."""
        return self._states.now is DriverState.BARRED

    async def read(self, connection: Connection) -> None:
        """Take frames until the connection is closed, by either side, or replaced."""
        session = self.session
        try:
            while True:
                # This wait ends when the pump does, and all waits of the pump have limits.
                await self._room.wait()
                try:
                    frame = await connection.receive()
                except ConnectionEnded:
                    mine = self._connection is connection
                    if not (mine and connection.unintelligible and session.disregard()):
                        raise
                    connection.ignore_rest()
                    self._look()
                    continue
                if self._connection is not connection:
                    await connection.until_closed()  # a return before that would close it with 1000
                    return
                if isinstance(frame, str):
                    now, flushes = time.monotonic(), session.flushes
                    resume = session.receive_text(frame, now)
                    if self._barred is not None and session.streams:
                        session.refuse(self._barred.code, self._barred.message, self._barred.retry_s)
                    if resume is not None and (other := self._meant(resume, connection)) is not None:
                        self._states.become(DriverState.PASSED_ON)
                        self._connection = None
                        self._leave()
                        await other.read(connection)
                        return
                    self._observed.asked(now)
                    self._requests.advance()
                    self._look()
                    if session.flushes > flushes:
                        await connection.pause(self._pace.wait_s(now))
                else:
                    await self._hear(connection, frame)
        except ConnectionEnded:
            self._lose(connection)
        except asyncio.CancelledError:
            if self._connection is connection:
                self._leave()
            raise
        except Exception as error:
            self._failures.report("the bridge failed", error)
            if self._connection is connection:
                session.break_down()
                self._look()
                await connection.until_lost()  # a return before that would close it before the error is sent
                self._lose(connection)

    async def _hear(self, connection: Connection, audio: bytes) -> None:
        """Take audio piece by piece, because decoding a large frame at once would delay the other sessions."""
        session = self.session
        for start in range(0, max(1, len(audio)), PIECE):
            if start:
                await asyncio.sleep(0)
                await self._room.wait()
                if self._connection is not connection:
                    return  # the client goes on over another one, after the samples taken so far
            piece, now = audio[start : start + PIECE], time.monotonic()
            session.receive_audio(piece, now)
            self._observed.received(len(piece), now)
            seconds = len(piece) / session.start.bytes_per_s * max(1, len(session.streams))
            if (denied := self._holdings.charge(seconds)) is not None:
                session.exhaust(denied.code, denied.message)
            self._requests.gather()
            self._look()

    async def pump(self) -> None:
        """Serve the session until both sides have ended. The sequence is ended even if this task is cancelled."""
        session = self.session
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                session.tick(now)
                self._observed.ticked(now)
                self._requests.collect()
                self._requests.advance(gathered=False)
                self._look(wake=False)
                await self._deliver()
                # Messages that were added meanwhile are sent before the close, unless the client does not read.
                if (
                    session.close is not None
                    and not session.unsaid
                    and self._connection
                    and not self._connection.closing
                ):
                    self._close(self._connection, session.close.code, session.close.reason)
                if session.over:
                    self._holdings.give_back()
                    if self._connection is not None and self._connection.closed:
                        self._lose(self._connection)
                    if session.left:
                        break
                await self._rest()
            if self._closings:
                await asyncio.wait(self._closings)
        except asyncio.CancelledError:
            log.info("cut off")
            raise
        except Exception as error:
            self._failures.report("the bridge failed", error)
            session.vanish("internal")
        finally:
            self._requests.cancel()
            connection = self._connection
            self._finish()
            if connection is not None:
                await connection.drop(CloseCode.FAILED, "the service failed")
            if self._closings:
                await asyncio.wait(self._closings)

    def take_over(self, connection: Connection, after: int) -> bool:
        """Resume the session over this connection. False if message `after` was never sent or is too old."""
        if not self.session.resume(after, time.monotonic()):
            return False
        former, self._connection = self._connection, connection
        if former is not None:
            former.interrupt()  # what is being sent there is sent again here
            self._close(former, CloseCode.RESUMED_ELSEWHERE, "resumed elsewhere")
            self._former = [each for each in self._former if not each.closed] + [former]
            if len(self._former) > MOST_FORMER:
                self._former.pop(0).abort()
        self._observed.resumed()
        logs.session.set(self.session.number)
        log.info("resumed", taken_over=former is not None)
        self._look()
        return True

    def drain(self) -> None:
        """End the session in order, because the service shuts down."""
        self.session.drain()
        self._wake.set()

    def _meant(self, resume: Resume, connection: Connection) -> SessionDriver | None:
        """Give the connection to the session that the client wants to resume. None if that is refused."""
        session = self.session
        other = self._resumption.find(resume.token, self._key)
        if other is None:
            limit = f"A session is kept for {session.limits.resume_s:g} s after its connection is lost"
            session.misdirect("unknown_token", f"No session with this token exists any more. {limit}; open a new one.")
        elif not other.take_over(connection, resume.after):
            what = f"Message {resume.after} was never sent, or the messages after it are no longer kept"
            session.misdirect("bad_resume", f"{what}; 'after' must be the 'n' of the last message that you received.")
            other = None
        return other

    def _lose(self, connection: Connection) -> None:
        """Handle a closed connection: end the session, or keep it for a client that did not mean to go."""
        if self._connection is not connection:
            return
        session = self.session
        # Either the client said goodbye, or it answered our close. If it answered neither, it may have missed `done`.
        wanted = connection.goodbye or (connection.agreed and session.close is not None)
        # A client that has not received the first message has no token.
        possible = session.parkable and self._told > 0
        if possible and not (connection.fault or wanted or self._resumption.full):
            self._connection = None
            self._observed.outgoing = 0
            session.park(time.monotonic())
            log.info("parked", seconds=session.limits.resume_s)
            self._look()
        else:
            self._leave(connection.fault or VANISHED)

    def _leave(self, reason: str = VANISHED) -> None:
        """Give up the client: it cannot return any more."""
        self.session.vanish(reason)
        self._look()

    def _look(self, *, wake: bool = True) -> None:
        if self.session.full:
            self._room.clear()
        else:
            self._room.set()
        if wake:
            self._wake.set()

    async def _rest(self) -> None:
        due = self.session.due_at()
        if due is None:  # a request is under way, and its answer or failure wakes the pump
            await self._wake.wait()
            return
        # Not wait_for(): before Python 3.12 it loses a cancellation that comes at the same time as the wake.
        alarm = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _deliver(self) -> None:
        connection = self._connection
        messages = self.session.take_messages() if connection is not None else []
        if connection is None or not messages:
            return
        # Messages that are sent again were counted the first time.
        fresh = [message for message in messages if message.n > self._told]
        self._observed.outgoing = len(fresh)
        if self._states.now is DriverState.OPENING and any(isinstance(message.message, Ready) for message in fresh):
            self._welcome()
        try:
            if not await connection.send(messages, self._sent):
                self._wake.set()  # the connection was replaced, so there is more to send
        except NotRead as late:
            if self._connection is connection:
                self.session.stall(late.limit_s)
        except ConnectionEnded:
            self._lose(connection)

    def _welcome(self) -> None:
        """Register the session, just before the client is told that it is ready."""
        self._states.become(DriverState.READY)
        self._observed.opened()
        self._resumption.add(self.session.token, self._key, self)
        start = self.session.start
        log.info("ready", encoding=start.encoding, sample_rate=start.sample_rate, channels=start.channels)

    def _sent(self, sent: Numbered) -> None:
        if sent.n > self._told:
            self._told = sent.n
            self._observed.said(sent.message, time.monotonic())

    def _close(self, connection: Connection, code: CloseCode, reason: str) -> None:
        closing = connection.close(code, reason)
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        closing.add_done_callback(lambda _: self._wake.set())

    def _finish(self) -> None:
        """Give back everything once, however the session ended."""
        session = self.session
        session.vanish("cut_off")
        self._holdings.give_back()
        self._resumption.remove(session.token)
        self._room.set()
        self._observed.end(time.monotonic())
        former = self._states.become(DriverState.ENDED)
        if former is not DriverState.PASSED_ON:
            self._observed.ended(ready=former is DriverState.READY)
            log.info("ended", reason=session.ended_by, audio_ms=session.heard_ms)
