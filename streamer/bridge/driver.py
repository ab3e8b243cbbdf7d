"""Connects a session to its websocket and to the model, also to another websocket of a client that returns.

There are two tasks. The reader takes frames, and waits while the session is full. The pump sends messages, and waits
for room. After the connection is lost, it waits for the client to return, and goes on until the sequence has ended. A
client returns over a new websocket, which another driver has accepted and hands over.

As long as a session just runs, neither of them does: audio is taken where the websocket reads it, and the messages in
an answer are written where it arrives (docs/decisions/cheap-bridge.md). Everything else wakes them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol, TypedDict

from streamer.base.codes import ErrorCode, QuietEnding, Reason
from streamer.base.events import Final as FinalEvent
from streamer.base.events import Ready
from streamer.base.options import Resume
from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.broadcast import Broadcast
from streamer.bridge.http.websocket import Chunk, ConnectionEnded, NotRead, WebSocket
from streamer.bridge.model_requests import Holdings, ModelRequests
from streamer.bridge.resumption import Resumption
from streamer.bridge.session.messages import Numbered
from streamer.bridge.session.session import Session, State
from streamer.bridge.states import States
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import SESSION, Metrics
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.upstreams.admission import Admission, Refused
from streamer.bridge.webhooks import Subject, Webhook, Webhooks
from streamer.wire.errors import CloseCode, WireError

log = Log("streamer.bridge")

PIECE = 16 * 1024  # bytes of audio to decode at a time: 2 s of G.711, which take two milliseconds
EXPEL_LIMIT_S = 8.0  # for the finals of a session that an operator ends
MOST_REPLACED = 3  # replaced connections of a session that are not closed yet; older ones are cut off


class DriverState(Enum):
    """The stage of a driver. Its session knows whether the client is connected."""

    BARRED = "barred"  # the connection may resume another session, but not open this one
    OPENING = "opening"  # the client has not received `ready`
    READY = "ready"  # the client has received `ready`, and may resume the session
    PASSED_ON = "passed on"  # the client resumed another session, which has the connection now
    ENDED = "ended"  # the driver has given back everything


TRANSITIONS: Mapping[DriverState, tuple[DriverState, ...]] = {
    DriverState.BARRED: (DriverState.PASSED_ON, DriverState.ENDED),
    DriverState.OPENING: (DriverState.READY, DriverState.PASSED_ON, DriverState.ENDED),
    DriverState.READY: (DriverState.ENDED,),
    DriverState.PASSED_ON: (DriverState.ENDED,),
    DriverState.ENDED: (),
}


class SessionFacts(TypedDict):
    """What an operator may know of a session."""

    id: str
    key: str
    format: str
    model: str
    state: str
    age_s: float
    audio_s: float
    lag_s: float


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
        webhooks: Webhooks | None = None,
        about: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """`key`: the name of the caller's key. `barred`: why the client may only resume a session, not open one.

        `protocol`: its name in metrics. `about`: what its format says of the session, once it has begun.
        """
        self.session = session
        self.key = key
        self.about = about
        self.broadcast: Broadcast | None = None  # if the session is shared with listeners
        self._webhooks = webhooks
        self._webhook: Webhook | None = None
        self._protocol = protocol
        self._began_at = time.monotonic()
        self._expulsion: asyncio.TimerHandle | None = None  # if an operator ends the session
        self._states = States("driver", DriverState.OPENING if barred is None else DriverState.BARRED, TRANSITIONS)
        self._connection: Connection | None = connection
        self._admission = admission
        self._resumption = resumption
        self._barred = barred
        self._holdings = Holdings(admission, admittance)
        self._session_metrics = SessionMetrics(session, metrics, protocol, key)
        self._failures = metrics.failures(SESSION)
        self._last_sent = 0  # the number of the last message that was sent
        self._pace = FlushPace()
        self._replaced: list[Connection] = []  # connections that are being closed, because another one replaced them
        self._closings: set[asyncio.Task[None]] = set()  # tasks that close connections, also those that were replaced
        self._wake = asyncio.Event()  # the pump has something to do
        self._room = asyncio.Event()  # the reader may go on
        self._alarm: asyncio.TimerHandle | None = None  # wakes the pump
        self._alarm_at = 0.0
        self._delivering = False  # the pump is sending messages
        self._moves = False  # to another bridge, at its next cut
        self._requests = ModelRequests(
            session, self._holdings, self._session_metrics, self._wake.set, self._note_progress
        )

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

        def take(chunks: Sequence[Chunk]) -> bool:
            if not self._room.is_set() or self._connection is not connection:
                return False
            self._take_chunks(chunks)
            return True

        try:
            while True:
                # This wait ends when the pump does, and all waits of the pump have limits.
                await self._room.wait()
                try:
                    websocket = connection if isinstance(connection, WebSocket) else None
                    frame = await (connection.receive() if websocket is None else websocket.receive(take))
                except ConnectionEnded:
                    current = self._connection is connection
                    if not (current and connection.unintelligible and session.disregard()):
                        raise
                    connection.ignore_rest()
                    self._signal()
                    continue
                if self._connection is not connection:
                    await connection.wait_until_closed()  # returning earlier would close it with 1000
                    return
                if isinstance(frame, str):
                    now, flushes, begun = time.monotonic(), session.flushes, bool(session.streams)
                    resume = session.receive_text(frame, now)
                    if session.streams and not begun:
                        self._open_webhook()
                    if self._barred is not None and session.streams:
                        session.refuse(self._barred.code, self._barred.message, self._barred.retry_s)
                    if resume is not None and await self._go_on_with(resume, connection):
                        return
                    self._session_metrics.note_final_request(now)
                    self._requests.advance()
                    self._signal()
                    if session.flushes > flushes:
                        await connection.pause(self._pace.wait_s(now))
                else:
                    await self._take_audio(connection, frame)
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
                self._signal()
                await connection.wait_until_lost()  # returning earlier would close it before the error is sent
                self._lose(connection)

    async def _take_audio(self, connection: Connection, audio: bytes) -> None:
        """Take audio piece by piece, because decoding a large frame at once would delay the other sessions."""
        for start in range(0, max(1, len(audio)), PIECE):
            if start:
                await asyncio.sleep(0)
            await self._room.wait()
            if self._connection is not connection:
                return  # the client goes on over another connection, after the samples taken so far
            self._take_chunks([(audio[start : start + PIECE], time.monotonic())])

    def _take_chunks(self, chunks: Sequence[Chunk]) -> None:
        """Take audio, with the times at which it came."""
        session = self.session
        audio = chunks[0][0] if len(chunks) == 1 else b"".join(chunk for chunk, _ in chunks)
        session.receive_audio(audio, chunks[-1][1])
        for chunk, at in chunks:
            self._session_metrics.note_audio(len(chunk), at)
        seconds = len(audio) / session.start.bytes_per_s * max(1, len(session.streams))
        if (denied := self._holdings.charge(seconds)) is not None:
            session.exhaust(denied.code, denied.message)
        if self._hold() == 0 and not session.streams.asked:
            self._requests.gather()
        self._signal(wake=session.eventful)

    def _hold(self) -> int:
        """Let the websocket hold audio until there is enough for the next request. Return what is missing for it."""
        missing = self.session.missing
        if isinstance(self._connection, WebSocket):
            self._connection.hold(missing)
        return missing

    async def pump(self) -> None:
        """Serve the session until both sides have ended. The sequence is ended even if this task is cancelled."""
        session = self.session
        try:
            while True:
                self._wake.clear()
                if isinstance(self._connection, WebSocket):
                    self._connection.release()  # a client that has sent something is not idle
                now = time.monotonic()
                session.tick(now)
                self._session_metrics.check(now)
                self._requests.collect()
                self._requests.advance(at_once=False)
                self._hold()
                self._signal(wake=False)
                await self._deliver()
                # Messages that were added meanwhile are sent before the close, unless the client does not read.
                if (
                    session.close is not None
                    and not session.has_unsent
                    and self._connection
                    and not self._connection.closing
                ):
                    self._close(self._connection, session.close.code, session.close.reason)
                if session.over:
                    self._holdings.give_back()
                    if self._connection is not None and self._connection.closed:
                        self._lose(self._connection)
                    if session.gone:
                        break
                self._set_alarm()
                await self._wake.wait()
            if self._closings:
                await asyncio.wait(self._closings)
        except asyncio.CancelledError:
            log.info("cut off")
            raise
        except Exception as error:
            self._failures.report("the bridge failed", error)
            session.vanish(ErrorCode.INTERNAL)
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            self._requests.cancel()
            connection = self._connection
            self._finish()
            if connection is not None:
                await connection.drop(CloseCode.FAILED, "the service failed")
            if self._closings:
                await asyncio.wait(self._closings)

    def take_over(self, connection: Connection, after: int) -> bool:
        """Resume the session over this connection. Return False if message `after` was never sent or is too old."""
        if not self.session.resume(after, time.monotonic()):
            return False
        taken_over = self._connection is not None
        self._replace_by(connection)
        self._session_metrics.note_resumption()
        logs.session.set(self.session.number)
        log.info("resumed", taken_over=taken_over)
        self._signal()
        return True

    def give_up(self) -> None:
        """End the session here at once, because its client goes on at another bridge. Nothing more is told."""
        former = logs.session.set(self.session.number)
        log.info("resumed at another bridge", taken_over=self._connection is not None)
        logs.session.reset(former)  # what called this is no session
        self._replace_by(None)
        self._leave(QuietEnding.RESUMED_ELSEWHERE)

    def move(self) -> None:
        """End the session in order at its next cut, where its client can go on at another bridge most easily."""
        self._moves = self._moves or self.session.limits.resume_s > 0

    def _replace_by(self, connection: Connection | None) -> None:
        """Go on with this connection, and close the former one."""
        former, self._connection = self._connection, connection
        if former is not None:
            former.interrupt()  # the message that is being sent there is sent again over another connection
            self._close(former, CloseCode.RESUMED_ELSEWHERE, "resumed elsewhere")
            self._replaced = [each for each in self._replaced if not each.closed] + [former]
            if len(self._replaced) > MOST_REPLACED:
                self._replaced.pop(0).abort()

    def tell_webhook(self, type: str, data: Mapping[str, object]) -> None:
        """Let the webhook of the session, if it has one, know of something that is no message."""
        if self._webhook is not None:
            self._webhook.tell(type, data)

    def drain(self) -> None:
        """End the session in order, because the service shuts down."""
        if isinstance(self._connection, WebSocket):
            self._connection.release()
        self.session.drain()
        self._wake.set()

    def expel(self) -> None:
        """End the session, because an operator wants it: with its finals, if they come soon."""
        former = logs.session.set(self.session.number)
        log.info("ended by an operator", key=self.key)
        logs.session.reset(former)  # what called this is no session
        if isinstance(self._connection, WebSocket):
            self._connection.release()
        self.session.expel()
        self._signal()
        if self._expulsion is None:
            self._expulsion = asyncio.get_running_loop().call_later(EXPEL_LIMIT_S, self._expel_now)

    def _expel_now(self) -> None:
        if self._states.now is not DriverState.ENDED:
            self.session.expel(at_once=True)
            self._signal()

    def facts(self) -> SessionFacts:
        """Return what an operator may know of the session: none of its words."""
        session, measured = self.session, self._session_metrics
        return {
            "id": session.number,
            "key": self.key,
            "format": self._protocol,
            "model": measured.model,
            "state": measured.state,
            "age_s": round(time.monotonic() - self._began_at, 1),
            "audio_s": round(session.heard_ms / 1000, 1),
            "lag_s": round(measured.lag_s, 2),
        }

    def _open_webhook(self) -> None:
        """Begin to post the words of a session that has begun, if its client or the operator has said where to."""
        session, start = self.session, self.session.start
        if self._webhooks is None or self._barred is not None:
            return
        subject = Subject(session.number, self._protocol, self.key, self._holdings.caller)
        options = {"model": start.model, "channels": start.channels, "sample_rate": start.sample_rate}
        try:
            self._webhook = self._webhooks.open(subject, start.webhook, {**options, **self.about()})
        except WireError as wrong:
            session.reject(wrong)
        else:
            if self._webhook is not None:
                session.overhear(self._webhook.note)

    async def _go_on_with(self, resume: Resume, connection: Connection) -> bool:
        """Let the client go on with the session that it wants to resume. Return whether it has done so until its end.

        Otherwise it was told why that is not possible.
        """
        if self._resumption.is_elsewhere(resume.token):
            return await self._pass_on(resume, connection)
        other = await self._hand_over(resume, connection)
        if other is None:
            return False
        self._states.become(DriverState.PASSED_ON)
        self._connection = None
        self._leave()
        await other.read(connection)
        return True

    async def _hand_over(self, resume: Resume, connection: Connection) -> SessionDriver | None:
        """Give the connection to the session that the client wants to resume. Return its driver, or None if refused."""
        await self._resumption.refresh()
        if self.session.state is State.CLOSED:  # meanwhile, because the service shuts down
            return None
        if self._resumption.is_expelled(resume.token):
            self._misdirect(ErrorCode.ENDED_BY_OPERATOR, resume)
            return None
        other = self._resumption.find(resume.token, self.key)
        if other is None:
            await self._claim(resume)
        elif not other.take_over(connection, resume.after):
            self._misdirect(ErrorCode.BAD_RESUME, resume)
            other = None
        return other

    async def _claim(self, resume: Resume) -> None:
        """Let another bridge give up the session, if one has it. The client then begins it again here."""
        if self._resumption.is_at_another_bridge(resume.token):
            try:
                self._admission.check()
            except Refused as refused:  # the session stays where it is, and the client tries again, there or here
                self.session.refuse(refused.code, refused.message, refused.retry_s)
                return
            await self._resumption.claim(resume.token, self.key)
        if self.session.state is not State.CLOSED:
            self._misdirect(ErrorCode.UNKNOWN_TOKEN, resume)

    async def _pass_on(self, resume: Resume, connection: Connection) -> bool:
        """Give the connection to the worker that has the session. Return whether it has it now; it is used no more."""
        assert isinstance(connection, WebSocket)  # nothing else can be resumed
        passing = await self._resumption.pass_on(connection, resume, self.key)
        if isinstance(passing, ErrorCode):
            self._misdirect(passing, resume)
            self._signal()
            return False
        self._states.become(DriverState.PASSED_ON)
        self._connection = None
        self._leave()
        await passing.wait_until_lost()
        return True

    def _misdirect(self, problem: ErrorCode, resume: Resume) -> None:
        """Tell the client why it cannot resume the session."""
        session = self.session
        if problem is ErrorCode.UNKNOWN_TOKEN:
            limit = f"A session is kept for {session.limits.resume_s:g} s after its connection is lost"
            session.misdirect(problem, f"No session with this token exists any more. {limit}; open a new one.")
        elif problem is ErrorCode.BAD_RESUME:
            message = f"Message {resume.after} was never sent, or the messages after it are no longer kept"
            session.misdirect(problem, f"{message}; 'after' must be the 'n' of the last message that you received.")
        elif problem is ErrorCode.ENDED_BY_OPERATOR:
            session.expel()
        else:
            session.refuse(problem, "The process that has this session does not answer; try again in a few seconds.")

    def _lose(self, connection: Connection) -> None:
        """Handle a lost connection: keep the session for its client, or end it if the client left on purpose."""
        if self._connection is not connection:
            return
        session = self.session
        # A client that neither closed the connection nor answered our close may have missed `done`.
        on_purpose = connection.goodbye or (connection.agreed and session.close is not None)
        # A client that has not received the first message has no token.
        may_return = session.parkable and self._last_sent > 0
        if may_return and not (connection.fault or on_purpose or self._resumption.full):
            self._connection = None
            self._session_metrics.outgoing = 0
            session.park(time.monotonic())
            log.info("parked", seconds=session.limits.resume_s)
            self._signal()
        else:
            self._leave(connection.fault or QuietEnding.VANISHED)

    def _leave(self, reason: Reason = QuietEnding.VANISHED) -> None:
        """End the client's side: the client cannot return any more."""
        self.session.vanish(reason)
        self._signal()

    def _signal(self, *, wake: bool = True) -> None:
        """Let the reader go on if the session has room, and wake the pump, also if that changes."""
        full = self.session.full
        if full is self._room.is_set():
            wake = True
            if full:
                self._room.clear()
            else:
                self._room.set()
        if wake:
            self._wake.set()

    def _note_progress(self) -> None:
        """Send the messages in an answer at once if the connection has room. The pump does what is left."""
        session, connection = self.session, self._connection
        running = self._states.now is DriverState.READY and session.state is State.STREAMING and not self._delivering
        missing = self._hold()
        if isinstance(connection, WebSocket) and connection.held and missing <= connection.held:
            connection.release()
            self._requests.advance()  # this audio has waited for the answer, so a flush behind it has come, too
        send = connection.direct if running and isinstance(connection, WebSocket) else None
        if send is None:
            self._signal()
            return
        if messages := session.take_messages():
            self._count(messages)
            send(messages, self._note_sent)
        self._set_alarm()
        self._signal(wake=session.eventful)

    def _set_alarm(self) -> None:
        """Wake the pump when something is due. An earlier alarm stays: the pump then looks again."""
        due = self.session.due_at()
        if due is None:  # a request is under way, and its answer or failure is noted
            return
        if self._alarm is not None:
            if self._alarm_at <= due:
                return
            self._alarm.cancel()
        self._alarm_at = due
        self._alarm = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake.set()

    def _count(self, messages: Iterable[Numbered]) -> list[Numbered]:
        """Return the messages that are new. Those that are sent again were counted the first time."""
        new = [message for message in messages if message.n > self._last_sent]
        self._session_metrics.outgoing = len(new)
        return new

    async def _deliver(self) -> None:
        """Send the session's messages, if there is a connection."""
        connection = self._connection
        messages = self.session.take_messages() if connection is not None else []
        if connection is None or not messages:
            return
        new = self._count(messages)
        if self._states.now is DriverState.OPENING and any(isinstance(message.message, Ready) for message in new):
            self._register()
        self._delivering = True
        try:
            if not await connection.send(messages, self._note_sent):
                self._wake.set()  # the connection was replaced, so there is more to send
        except NotRead as late:
            if self._connection is connection:
                self.session.stall(late.limit_s)
        except ConnectionEnded:
            self._lose(connection)
        finally:
            self._delivering = False

    def _register(self) -> None:
        """Register the session, just before the client learns that it is ready."""
        self._states.become(DriverState.READY)
        self._session_metrics.note_ready()
        self._resumption.add(self.session.token, self.key, self)
        start = self.session.start
        log.info("ready", encoding=start.encoding, sample_rate=start.sample_rate, channels=start.channels)

    def _note_sent(self, message: Numbered) -> None:
        if message.n > self._last_sent:
            self._last_sent = message.n
            self._session_metrics.note_message(message.message, time.monotonic())
            if self.broadcast is not None:
                self.broadcast.note(message)
            if self._moves and isinstance(message.message, FinalEvent):
                self._moves = False
                asyncio.get_running_loop().call_soon(self.drain)

    def _close(self, connection: Connection, code: CloseCode, reason: str) -> None:
        closing = connection.close(code, reason)
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        closing.add_done_callback(lambda _: self._wake.set())

    def _finish(self) -> None:
        """Give back everything, however the session ended."""
        session = self.session
        if self._expulsion is not None:
            self._expulsion.cancel()
        session.vanish(QuietEnding.CUT_OFF)
        self._holdings.give_back()
        self._resumption.remove(session.token)
        self._room.set()
        if self.broadcast is not None:
            self.broadcast.close()
        if self._webhook is not None:
            self._webhook.end(session.ended_by, session.heard_ms)
        self._session_metrics.end(time.monotonic())
        former = self._states.become(DriverState.ENDED)
        if former is not DriverState.PASSED_ON:
            self._session_metrics.count_ending(ready=former is DriverState.READY)
            log.info("ended", key=self.key, reason=session.ended_by, audio_ms=session.heard_ms)


class Line(Protocol):
    """A connection with a client, whatever is sent over it. websocket.py explains each member."""

    @property
    def closing(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def agreed(self) -> bool: ...
    @property
    def goodbye(self) -> bool: ...
    @property
    def fault(self) -> Reason | None: ...
    @property
    def unintelligible(self) -> bool: ...
    def ignore_rest(self) -> None: ...
    def interrupt(self) -> None: ...
    def abort(self) -> None: ...
    def close(self, code: int, reason: str) -> asyncio.Task[None]: ...
    async def receive(self) -> str | bytes: ...
    async def pause(self, seconds: float) -> None: ...
    async def wait_until_closed(self) -> None: ...
    async def wait_until_lost(self) -> None: ...
    async def drop(self, code: int, reason: str) -> None: ...


class Connection(Line, Protocol):
    """The client's side of a session: a websocket, or the upload of a recording."""

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool: ...


# Limits how fast `flush` messages of one client are read, because even a tiny one costs the recogniser an answer.

MOST_FLUSHES = 32  # that a client may send at once
FLUSHES_PER_S = 10.0  # that it may send in each second after that


class FlushPace:
    """The pace of one client. If its `flush` messages come faster, reading pauses for a moment."""

    def __init__(self) -> None:
        self._ahead_s = 0.0  # how far the client is ahead of the pace
        self._last_at = 0.0

    def wait_s(self, now: float) -> float:
        """Note a `flush`. Return how long to wait before reading the next message."""
        self._ahead_s = max(0.0, self._ahead_s - (now - self._last_at)) + 1 / FLUSHES_PER_S
        self._last_at = now
        return max(0.0, self._ahead_s - MOST_FLUSHES / FLUSHES_PER_S)
