"""A session and the websocket that it has at present: moves what the session hands out, and nothing more.

Two tasks: the reader takes frames and waits while the session is full; the pump alone sends, to the client and to
the model. The pump outlives the connection until the sequence is ended, and waits for a client that lost its
connection: it comes back with a websocket that another conversation began with.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from streamer.bridge import logs
from streamer.bridge.admission import Admission, Refused
from streamer.bridge.allowance import Denied, Visit
from streamer.bridge.lane import Request
from streamer.bridge.logs import Log
from streamer.bridge.metrics import Metrics
from streamer.bridge.parking import Parking
from streamer.bridge.session import Session
from streamer.bridge.upstream import Lease
from streamer.bridge.watch import Watch
from streamer.triton.link import ConnectionLost, LinkError
from streamer.wire.errors import CloseCode
from streamer.wire.native import close_reason, encode

log = Log("streamer.bridge")

# A client that does not read what it was sent for so long is closed: its results would have to be kept somewhere.
# Shorter than Triton's idle limit, because nothing is asked of the model meanwhile.
SEND_LIMIT_S = 10.0
# For a client to take its part in a close; then it is cut off.
CLOSE_LIMIT_S = 3.0
# Closes that the websocket library decides on, by the code that it sends.
_LIBRARY_CLOSES = {1007: "not_utf8", 1009: "too_large"}
# With these a client says goodbye: it wanted to go, with words or without. Any other end is a loss.
_GOODBYES = (1000, 1005)


class Conversation:
    """Drives one session until both of its sides have ended, over one websocket or several."""

    def __init__(
        self,
        websocket: ServerConnection,
        session: Session,
        admission: Admission,
        metrics: Metrics,
        parking: Parking,
        visit: Visit | None = None,
        *,
        key: str = "",
        barred: Denied | None = None,
    ) -> None:
        """`key`: the name of its caller's; `barred`: why it may resume a session, but not open one."""
        self.session = session
        self._websocket: ServerConnection | None = websocket
        self._parking = parking
        self._key = key
        self._barred = barred
        self._admission = admission
        self._metrics = metrics
        self._watch = Watch(session, metrics)
        self._visit = visit  # what its caller may have
        self._leases: list[Lease] = []  # of the lanes
        self._begun: set[int] = set()  # the lanes that have used theirs
        self._ready = False
        self._gone = False  # nobody comes back
        self._draining = False
        self._passed_on = False  # its client meant another session, and has it
        self._parked_until: float | None = None
        self._told = 0  # the number of the last message that has left
        self._sending: asyncio.Task[None] | None = None
        self._farewells: set[asyncio.Task[None]] = set()  # to connections that were replaced
        self._wake = asyncio.Event()  # something happened that the pump has to look at
        self._room = asyncio.Event()  # the reader may go on

    @property
    def parked(self) -> bool:
        """Whether nobody is connected, but somebody may come back."""
        return self._parked_until is not None

    @property
    def resumable(self) -> bool:
        """Whether its client may come back, or take it over from an older connection."""
        return not self._gone and (self.parked or self.session.resumable)

    @property
    def waiting(self) -> bool:
        """Whether a connection has no sequence, and may want one."""
        return not self._leases and not self.parked

    @property
    def barred(self) -> bool:
        """Whether a connection may only resume a session, and has not done so."""
        return self._barred is not None and not self._passed_on

    async def read(self, websocket: ServerConnection) -> None:
        """Take frames until the connection is closed, by whomever, or replaced."""
        session = self.session
        try:
            while True:
                # Ends at the latest with the pump, whose own waits are all bounded.
                await self._room.wait()
                frame = await websocket.recv()
                if self._websocket is not websocket:
                    return
                now = time.monotonic()
                if isinstance(frame, str):
                    session.receive_text(frame, now)
                    if self._barred is not None and session.lanes:
                        session.refuse(self._barred.code, self._barred.message, self._barred.retry_s)
                    if session.resuming is not None and (other := self._meant()) is not None:
                        self._passed_on, self._websocket = True, None
                        self._leave()
                        await other.read(websocket)
                        return
                    self._watch.asked(now)
                else:
                    session.receive_audio(frame, now)
                    self._watch.received(len(frame), now)
                    seconds = len(frame) / session.start.bytes_per_s * max(1, len(session.lanes))
                    if self._visit is not None and (denied := self._visit.charge(seconds)) is not None:
                        session.exhaust(denied.code, denied.message)
                self._look()
        except ConnectionClosed:
            self._lose(websocket)
        except BaseException:
            if self._websocket is websocket:
                self._leave()
            raise

    async def pump(self) -> None:
        """Serve the session until both sides have ended; the sequence is ended also if this is cancelled."""
        session = self.session
        asking: dict[int, asyncio.Task[None]] = {}
        closing: asyncio.Task[None] | None = None
        closed: ServerConnection | None = None  # the one that it closes
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                session.tick(now)
                self._check_parked(now)
                self._watch.ticked(now)
                for task in asking.values():
                    if task.done():
                        task.result()
                self._admit()
                for lane, request in session.requests(now):
                    asking[lane] = asyncio.create_task(self._ask(lane, request))
                self._look(wake=False)
                await self._deliver()
                if session.close is not None and self._websocket not in (None, closed):
                    closed = self._websocket
                    closing = asyncio.create_task(self._close(closed, session.close.code, session.close.reason))
                    closing.add_done_callback(lambda _: self._wake.set())
                if session.over:
                    self._release()
                    if closed is not None and self._websocket is closed and closing is not None and closing.done():
                        self._lose(closed)
                    if self._gone:
                        break
                await self._rest()
            if closing is not None:
                await closing
        except asyncio.CancelledError:
            log.info("cut off")
            raise
        except Exception:
            log.exception("the bridge failed")
            session.vanish("internal")
        finally:
            for running in (*asking.values(), closing, self._sending):
                if running is not None:
                    running.cancel()
            websocket = self._websocket
            self._finish()
            if websocket is not None:
                # At once when it is closed already.
                await self._close(websocket, CloseCode.FAILED, "the service failed")
            if self._farewells:
                await asyncio.wait(self._farewells)

    def take_over(self, websocket: ServerConnection, after: int) -> bool:
        """Its client has come back with this connection; False if it cannot have seen that message, or too long ago."""
        if not self.session.resume(after, time.monotonic()):
            return False
        former, self._websocket = self._websocket, websocket
        self._parked_until = None
        if former is not None:
            # Whatever is being sent there is sent here again.
            if self._sending is not None:
                self._sending.cancel()
            farewell = asyncio.create_task(self._close(former, CloseCode.RESUMED_ELSEWHERE, "resumed elsewhere"))
            self._farewells.add(farewell)
            farewell.add_done_callback(self._farewells.discard)
        self._metrics.resumes.inc()
        logs.session.set(self.session.number)
        log.info("resumed", taken_over=former is not None)
        self._look()
        return True

    def drain(self) -> None:
        """The service shuts down."""
        self._draining = True
        if self.parked:
            self.session.vanish("shutting_down")
            self._leave()
        else:
            self.session.drain()
        self._wake.set()

    def _meant(self) -> Conversation | None:
        """The session that the client wants to go on with, which has its connection now; None if it is told why not."""
        session, resume = self.session, self.session.resuming
        assert resume is not None
        assert self._websocket is not None
        other = self._parking.find(resume.token, self._key)
        if other is None:
            limit = f"A session is kept for {session.limits.resume_s:g} s after its connection"
            session.misdirect("unknown_token", f"No session has this token: it has ended. {limit}; open a new one.")
        elif not other.take_over(self._websocket, resume.after):
            what = f"Message {resume.after} was never sent, or what follows it is not kept any more"
            session.misdirect("bad_resume", f"{what}; 'after' must be the last 'n' that was seen.")
            other = None
        return other

    def _lose(self, websocket: ServerConnection) -> None:
        """This connection is closed: the session ends, or is kept for a client that did not want that."""
        if self._websocket is not websocket:
            return
        session, protocol = self.session, websocket.protocol
        received, sent = protocol.close_rcvd, protocol.close_sent
        by_library = sent is not None and not protocol.close_rcvd_then_sent and sent.code in _LIBRARY_CLOSES
        # Our own close was answered, or it is a goodbye. Whoever has not answered `done` may not have it.
        wanted = received is not None and (session.close is not None or received.code in _GOODBYES)
        kept_s = session.limits.resume_s
        # Without the first message a client has no token.
        possible = session.resumable and kept_s > 0 and self._told > 0 and not self._draining
        if possible and not (by_library or wanted or self._gone or self._parking.full):
            self._websocket = None
            self._watch.outgoing = 0
            self._parked_until = time.monotonic() + kept_s
            session.park()
            log.info("parked", seconds=kept_s)
        else:
            session.vanish(_LIBRARY_CLOSES[sent.code] if by_library and sent is not None else "vanished")
            self._leave()
        self._look()

    def _leave(self) -> None:
        """Nobody comes back any more."""
        self.session.vanish()
        self._gone, self._parked_until = True, None
        self._look()

    def _check_parked(self, now: float) -> None:
        self.session.check_kept()
        if self._parked_until is not None and (now >= self._parked_until or self.session.ended_by == "not_fetched"):
            self._leave()

    def _look(self, *, wake: bool = True) -> None:
        if self.session.full:
            self._room.clear()
        else:
            self._room.set()
        if wake:
            self._wake.set()

    async def _rest(self) -> None:
        due = min((at for at in (self.session.due_at(), self._parked_until) if at is not None), default=None)
        wait = None if due is None else max(0.0, due - time.monotonic())
        # Without a time there is a request under way, and its answer or its failure wakes the pump.
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._wake.wait(), wait)

    def _admit(self) -> None:
        """The sequences of all lanes before any request, or none of them: half a session would wait for the other."""
        session = self.session
        if self._leases or not session.wanted:
            return
        try:
            self._leases = self._admission.take(session.start.model_options(), session.wanted)
        except Refused as refused:
            session.refuse(refused.code, refused.message)

    async def _ask(self, lane: int, request: Request) -> None:
        session, started = self.session, time.monotonic()
        try:
            if request.start:
                self._place(lane, request)
            events = await self._leases[lane].send(request.pcm, flush=request.flush, end=request.end)
        except LinkError as error:
            # The model quotes options that it refuses, and these may be a client's own words.
            detail = "" if error.code == "bad_options" else error.message
            log.warning("request failed", lane=lane, code=error.code, detail=detail)
            now = time.monotonic()
            self._watch.failed(lane, error.code, now)  # first: then it still sees what is going to be played again
            session.fail(lane, error.code, error.message, now, lost=isinstance(error, ConnectionLost))
        else:
            now = time.monotonic()
            session.answer(lane, events, now)
            self._watch.answered(now - started, now)
        finally:
            self._wake.set()

    def _place(self, lane: int, request: Request) -> None:
        """The first sequence of a lane has its place already, each further one gets another."""
        if lane in self._begun:
            options = {**self.session.start.model_options(), **request.options}
            self._leases[lane] = self._admission.replace(self._leases[lane], options)
        self._begun.add(lane)

    async def _deliver(self) -> None:
        websocket = self._websocket
        messages = self.session.take_messages() if websocket is not None else []
        if websocket is None or not messages:
            return
        self._watch.outgoing = sum(message["n"] > self._told for message in messages)
        sending = self._sending = asyncio.create_task(self._send(websocket, messages))
        await asyncio.wait({sending}, timeout=SEND_LIMIT_S)
        if not sending.done():
            sending.cancel()
            if self._websocket is websocket:
                self.session.stall(SEND_LIMIT_S)
        elif sending.cancelled():
            self._wake.set()  # the connection was replaced: there is more to send
        elif isinstance(error := sending.exception(), ConnectionClosed):
            self._lose(websocket)
        elif error is not None:
            raise error

    async def _send(self, websocket: ServerConnection, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            # What comes once more was counted when it left for the first time.
            fresh = message["n"] > self._told
            if fresh and message["type"] == "ready":
                self._ready = True
                self._metrics.sessions_opened.inc()
                self._parking.add(self.session.token, self._key, self)
                start = self.session.start
                log.info("ready", encoding=start.encoding, sample_rate=start.sample_rate, channels=start.channels)
            await websocket.send(encode(message))
            if fresh:
                self._told = message["n"]
                self._watch.said(message, time.monotonic())

    async def _close(self, websocket: ServerConnection, code: CloseCode, reason: str) -> None:
        # The library's own limit begins when the close frame is written, which never happens when a client
        # does not read.
        try:
            await asyncio.wait_for(websocket.close(code, close_reason(reason)), CLOSE_LIMIT_S)
        except asyncio.TimeoutError:
            websocket.transport.abort()

    def _release(self) -> None:
        """Give back what the session held of the recogniser and of its caller's share, once."""
        leases, self._leases = self._leases, []
        if leases:
            self._admission.give_back(leases)
        visit, self._visit = self._visit, None
        if visit is not None:
            visit.leave()

    def _finish(self) -> None:
        """Release what is left, once, however the session ended."""
        session = self.session
        session.vanish("cut_off")
        self._gone, self._parked_until = True, None
        self._release()
        self._parking.remove(session.token)
        self._room.set()
        if self._passed_on:
            self._watch.end(time.monotonic())
            return
        if self._ready:
            self._metrics.sessions_ended.labels(session.ended_by).inc()
        elif session.ended_by != "vanished":
            self._metrics.refusals.labels(session.ended_by).inc()
        self._watch.end(time.monotonic())
        log.info("ended", reason=session.ended_by, audio_ms=session.heard_ms)
