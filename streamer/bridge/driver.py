"""A session and the websocket that it has at present: moves what the session hands out, and nothing more.

Two tasks: the reader takes frames and waits while the session is full; the pump alone sends, to the client and to
the model. The pump outlives the connection until the sequence is ended, and waits for a client that lost its
connection: it comes back with a websocket that another driver began with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum

from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.holdings import Holdings
from streamer.bridge.http.websocket import ConnectionEnded, NotRead, WebSocket
from streamer.bridge.resumption import Resumption
from streamer.bridge.session.endings import VANISHED
from streamer.bridge.session.outbox import Numbered
from streamer.bridge.session.session import Session
from streamer.bridge.session.stream import Request
from streamer.bridge.states import States
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import SESSION, Metrics
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.text_pace import TextPace
from streamer.bridge.upstreams.admission import Admission, Refused
from streamer.triton.link import ConnectionLost, LinkError
from streamer.wire.errors import CloseCode
from streamer.wire.events import Ready
from streamer.wire.failures import FailureCode
from streamer.wire.options import Resume

log = Log("streamer.bridge")

PIECE = 16 * 1024  # bytes of audio that are decoded at a time: two milliseconds of work where they are 2 s of G.711
MOST_FORMER = 3  # connections of a session that were replaced and are not closed yet; older ones are cut off


class DriverState(Enum):
    """What has become of the session that is driven. Whether its client is there, the session knows itself."""

    BARRED = "barred"  # its connection may resume another session, and not open this one
    OPENING = "opening"  # the client was not told yet that it is there
    READY = "ready"  # the client was told, and may resume it
    PASSED_ON = "passed on"  # the client meant another session, which has the connection now
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
        connection: WebSocket,
        session: Session,
        admission: Admission,
        metrics: Metrics,
        resumption: Resumption[SessionDriver],
        visit: Admittance | None = None,
        *,
        key: str = "",
        barred: Denied | None = None,
    ) -> None:
        """`key`: the name of its caller's; `barred`: why it may resume a session, but not open one."""
        self.session = session
        self._states = States("driver", DriverState.OPENING if barred is None else DriverState.BARRED, TRANSITIONS)
        self._connection: WebSocket | None = connection
        self._resumption = resumption
        self._key = key
        self._barred = barred
        self._holdings = Holdings(admission, visit)
        self._observed = SessionMetrics(session, metrics)
        self._failures = metrics.failures(SESSION)
        self._told = 0  # the number of the last message that has left
        self._pace = TextPace()
        self._former: list[WebSocket] = []  # that are being closed
        self._closings: set[asyncio.Task[None]] = set()  # of connections, also of those that were replaced
        self._asking: set[asyncio.Task[None]] = set()  # requests to the model, one of each stream at most
        self._wake = asyncio.Event()  # something happened that the pump has to look at
        self._room = asyncio.Event()  # the reader may go on

    @property
    def parked(self) -> bool:
        """Whether nobody is connected, but somebody may come back."""
        return self.session.parked

    @property
    def resumable(self) -> bool:
        """Whether its client may come back, or take it over from an older connection."""
        return self.session.resumable

    @property
    def waiting(self) -> bool:
        """Whether a connection has no slot, and may want one."""
        return not self._holdings.reservations and not self.parked

    @property
    def barred(self) -> bool:
        """Whether a connection may only resume a session, and has not done so."""
        return self._states.now is DriverState.BARRED

    async def read(self, connection: WebSocket) -> None:
        """Take frames until the connection is closed, by whomever, or replaced."""
        session = self.session
        try:
            while True:
                # Ends at the latest with the pump, whose own waits are all bounded.
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
                    await connection.until_closed()  # who returns from here has it closed with 1000
                    return
                if isinstance(frame, str):
                    now = time.monotonic()
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
                    self._advance()
                    self._look()
                    await asyncio.sleep(self._pace.wait_s(now))
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
                await connection.until_lost()  # who returns from here has it closed, before it is told why
                self._lose(connection)

    async def _hear(self, connection: WebSocket, audio: bytes) -> None:
        """Take audio piece by piece: to decode all of a large frame at once would hold up the other sessions."""
        session = self.session
        for start in range(0, max(1, len(audio)), PIECE):
            if start:
                await asyncio.sleep(0)
                await self._room.wait()
                if self._connection is not connection:
                    return  # the client goes on over another one, from the sample that had come until then
            piece, now = audio[start : start + PIECE], time.monotonic()
            session.receive_audio(piece, now)
            self._observed.received(len(piece), now)
            seconds = len(piece) / session.start.bytes_per_s * max(1, len(session.streams))
            if (denied := self._holdings.charge(seconds)) is not None:
                session.exhaust(denied.code, denied.message)
            self._advance()
            self._look()

    async def pump(self) -> None:
        """Serve the session until both sides have ended; the sequence is ended also if this is cancelled."""
        session = self.session
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                session.tick(now)
                self._observed.ticked(now)
                for task in [task for task in self._asking if task.done()]:
                    self._asking.discard(task)
                    task.result()
                self._advance()
                self._look(wake=False)
                await self._deliver()
                # What was said while other messages were on their way comes before the close, unless nobody reads it.
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
            for running in self._asking:
                running.cancel()
            connection = self._connection
            self._finish()
            if connection is not None:
                await connection.drop(CloseCode.FAILED, "the service failed")
            if self._closings:
                await asyncio.wait(self._closings)

    def take_over(self, connection: WebSocket, after: int) -> bool:
        """Its client has come back with this connection; False if it cannot have seen that message, or too long ago."""
        if not self.session.resume(after, time.monotonic()):
            return False
        former, self._connection = self._connection, connection
        if former is not None:
            former.interrupt()  # whatever is being sent there is sent here again
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
        """The service shuts down."""
        self.session.drain()
        self._wake.set()

    def _meant(self, resume: Resume, connection: WebSocket) -> SessionDriver | None:
        """The session that the client wants to go on with, which has its connection now; None if it is told why not."""
        session = self.session
        other = self._resumption.find(resume.token, self._key)
        if other is None:
            limit = f"A session is kept for {session.limits.resume_s:g} s after its connection"
            session.misdirect("unknown_token", f"No session has this token: it has ended. {limit}; open a new one.")
        elif not other.take_over(connection, resume.after):
            what = f"Message {resume.after} was never sent, or what follows it is not kept any more"
            session.misdirect("bad_resume", f"{what}; 'after' must be the last 'n' that was seen.")
            other = None
        return other

    def _lose(self, connection: WebSocket) -> None:
        """This connection is closed: the session ends, or is kept for a client that did not want that."""
        if self._connection is not connection:
            return
        session = self.session
        # Our own close was answered, or it is a goodbye. Whoever has not answered `done` may not have it.
        wanted = connection.goodbye or (connection.agreed and session.close is not None)
        # Without the first message a client has no token.
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
        """Nobody comes back any more."""
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
        wait = None if due is None else max(0.0, due - time.monotonic())
        # Without a time there is a request under way, and its answer or its failure wakes the pump.
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), wait)

    def _advance(self) -> None:
        """Send what the session has for the model now."""
        self._admit()
        if not self._holdings.reservations:  # not let in yet, or everything is given back
            return
        for stream, request in self.session.requests(time.monotonic()):
            self._asking.add(asyncio.create_task(self._ask(stream, request)))

    def _admit(self) -> None:
        """The slots of all streams before any request, or none of them."""
        session = self.session
        if self._holdings.reservations or not session.wanted:
            return
        streams = session.wanted
        try:
            self._holdings.take(session.start, streams)
        except Refused as refused:
            session.refuse(refused.code, refused.message)
            return
        if (denied := self._holdings.prepare(session.start, streams)) is not None:
            session.refuse(denied.code, denied.message, denied.retry_s)

    async def _ask(self, stream: int, request: Request) -> None:
        session, reservation, started = self.session, self._holdings.reservations[stream], time.monotonic()
        moving = session.streams[stream].moving
        try:
            if request.start:
                events = await reservation.begin(request.options)
            else:
                events = await reservation.send(request.pcm, flush=request.flush, end=request.end)
        except LinkError as error:
            # The model quotes options that it refuses, and these may be a client's own words.
            detail = "" if error.code == FailureCode.BAD_OPTIONS else error.message
            log.warning("request failed", stream=stream, code=error.code, detail=detail)
            now = time.monotonic()
            self._observed.failed(stream, error.code, now)  # first: then it still sees what is going to be played again
            session.fail(stream, error.code, error.message, now, lost=isinstance(error, ConnectionLost))
        else:
            now = time.monotonic()
            if request.start:
                session.serve(reservation.upstream.model)
                if moving:
                    self._observed.moved()
                    log.info("moved", stream=stream, model=reservation.upstream.model)
            session.answer(stream, events, now, leaving=reservation.leaving)
            self._observed.answered(now - started, now)
            self._advance()
        finally:
            self._wake.set()

    async def _deliver(self) -> None:
        connection = self._connection
        messages = self.session.take_messages() if connection is not None else []
        if connection is None or not messages:
            return
        # What comes once more was counted when it left for the first time.
        fresh = [message for message in messages if message.n > self._told]
        self._observed.outgoing = len(fresh)
        if self._states.now is DriverState.OPENING and any(isinstance(message.message, Ready) for message in fresh):
            self._welcome()
        try:
            if not await connection.send(messages, self._sent):
                self._wake.set()  # the connection was replaced: there is more to send
        except NotRead as late:
            if self._connection is connection:
                self.session.stall(late.limit_s)
        except ConnectionEnded:
            self._lose(connection)

    def _welcome(self) -> None:
        """The session is about to be told that it is there."""
        self._states.become(DriverState.READY)
        self._observed.opened()
        self._resumption.add(self.session.token, self._key, self)
        start = self.session.start
        log.info("ready", encoding=start.encoding, sample_rate=start.sample_rate, channels=start.channels)

    def _sent(self, sent: Numbered) -> None:
        if sent.n > self._told:
            self._told = sent.n
            self._observed.said(sent.message, time.monotonic())

    def _close(self, connection: WebSocket, code: CloseCode, reason: str) -> None:
        closing = connection.close(code, reason)
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        closing.add_done_callback(lambda _: self._wake.set())

    def _finish(self) -> None:
        """Give back what is left, once, however the session ended."""
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
