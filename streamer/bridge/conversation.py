"""One websocket and its session: moves what the session hands out, and nothing more.

Two tasks: the reader takes frames and waits while the session is full; the pump alone sends, to the client and to
the model. The pump outlives the connection until the sequence is ended.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from streamer.bridge.admission import Admission, Refused
from streamer.bridge.allowance import Visit
from streamer.bridge.lane import Request
from streamer.bridge.logs import Log
from streamer.bridge.metrics import Metrics
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


class Conversation:
    """Drives one session over one websocket until both of its sides have ended."""

    def __init__(
        self,
        websocket: ServerConnection,
        session: Session,
        admission: Admission,
        metrics: Metrics,
        visit: Visit | None = None,
    ) -> None:
        self.session = session
        self._websocket = websocket
        self._admission = admission
        self._metrics = metrics
        self._watch = Watch(session, metrics)
        self._visit = visit  # what its caller may have
        self._leases: list[Lease] = []  # of the lanes
        self._begun: set[int] = set()  # the lanes that have used theirs
        self._ready = False
        self._wake = asyncio.Event()  # something happened that the pump has to look at
        self._room = asyncio.Event()  # the reader may go on

    async def read(self) -> None:
        """Take frames until the connection is closed, by whomever."""
        session, reason = self.session, "vanished"
        try:
            while True:
                # Ends at the latest with the pump, whose own waits are all bounded.
                await self._room.wait()
                frame = await self._websocket.recv()
                now = time.monotonic()
                if isinstance(frame, str):
                    session.receive_text(frame, now)
                    self._watch.asked(now)
                else:
                    session.receive_audio(frame, now)
                    self._watch.received(len(frame), now)
                    seconds = len(frame) / session.start.bytes_per_s * max(1, len(session.lanes))
                    if self._visit is not None and (denied := self._visit.charge(seconds)) is not None:
                        session.exhaust(denied.code, denied.message)
                self._look()
        except ConnectionClosed as closed:
            if closed.sent is not None and not closed.rcvd_then_sent:
                reason = _LIBRARY_CLOSES.get(closed.sent.code, reason)
        finally:
            session.vanish(reason)
            self._look()

    async def pump(self) -> None:
        """Serve the session until both sides have ended; the sequence is ended also if this is cancelled."""
        session = self.session
        asking: dict[int, asyncio.Task[None]] = {}
        closing: asyncio.Task[None] | None = None
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                session.tick(now)
                self._watch.ticked(now)
                for task in asking.values():
                    if task.done():
                        task.result()
                self._admit()
                for lane, request in session.requests(now):
                    asking[lane] = asyncio.create_task(self._ask(lane, request))
                self._look(wake=False)
                await self._deliver()
                if session.close is not None and closing is None:
                    code, reason = session.close.code, close_reason(session.close.reason)
                    closing = asyncio.create_task(self._close(code, reason))
                if session.over:
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
            for running in (*asking.values(), closing):
                if running is not None:
                    running.cancel()
            self._finish()
            # At once when it is closed already.
            await self._close(CloseCode.FAILED, "the service failed")

    def drain(self) -> None:
        """The service shuts down."""
        self.session.drain()
        self._wake.set()

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
        messages = self.session.take_messages()
        if not messages:
            return
        self._watch.outgoing = len(messages)
        try:
            await asyncio.wait_for(self._send(messages), SEND_LIMIT_S)
        except ConnectionClosed:
            self.session.vanish()
        except asyncio.TimeoutError:
            self.session.stall(SEND_LIMIT_S)

    async def _send(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            kind = message["type"]
            if kind == "ready":
                self._ready = True
                self._metrics.sessions_opened.inc()
                start = self.session.start
                log.info("ready", encoding=start.encoding, sample_rate=start.sample_rate, channels=start.channels)
            await self._websocket.send(encode(message))
            self._watch.said(message, time.monotonic())

    async def _close(self, code: CloseCode, reason: str) -> None:
        # The library's own limit begins when the close frame is written, which never happens when a client
        # does not read.
        try:
            await asyncio.wait_for(self._websocket.close(code, reason), CLOSE_LIMIT_S)
        except asyncio.TimeoutError:
            self._websocket.transport.abort()

    def _finish(self) -> None:
        """Release what the session held, once, however it ended."""
        session = self.session
        session.vanish("cut_off")
        if self._leases:
            self._admission.give_back(self._leases)
        self._room.set()
        if self._ready:
            self._metrics.sessions_ended.labels(session.ended_by).inc()
        elif session.ended_by != "vanished":
            self._metrics.refusals.labels(session.ended_by).inc()
        self._watch.end(time.monotonic())
        log.info("ended", reason=session.ended_by, audio_ms=session.heard_ms)
