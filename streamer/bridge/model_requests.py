"""The requests of one session to the model. Each is sent as soon as the session has it, and has its own task.

The slots for all streams are taken before the first request. If there are too few, the session is refused. If the model
must be loaded first, the session waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from streamer.bridge.holdings import Holdings
from streamer.bridge.session.session import Session
from streamer.bridge.session.stream import Request
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.upstreams.admission import Loading, Refused
from streamer.triton.link import ConnectionLost, LinkError
from streamer.wire.failures import FailureCode

log = Log("streamer.bridge")

# Audio waits so long for what comes right behind it. A flush that comes with the last audio is sent with it. Otherwise
# it would wait for the answer to that audio, because a stream has one request under way at a time.
GATHER_S = 0.001


class ModelRequests:
    """Sends what the session has for the model, and gives it the answers and failures."""

    def __init__(
        self, session: Session, holdings: Holdings, observed: SessionMetrics, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each answer or failure."""
        self._session = session
        self._holdings = holdings
        self._observed = observed
        self._changed = changed
        self._asking: set[asyncio.Task[None]] = set()  # at most one for each stream
        self._gathering: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None  # of what was done after gathering
        self._loading: asyncio.Future[None] | None = None  # of the model, if the session waits for it

    def gather(self) -> None:
        """Send what the session has for the model in a moment."""
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._gathered)

    def advance(self, *, gathered: bool = True) -> None:
        """Send what the session has for the model now. Without `gathered`, a moment that has begun is waited for."""
        if self._gathering is not None:
            if not gathered:
                return
            self._gathering.cancel()
            self._gathering = None
        self._admit()
        if not self._holdings.reservations:  # not admitted yet, or everything was given back
            return
        for stream, request in self._session.requests(time.monotonic()):
            self._asking.add(asyncio.create_task(self._ask(stream, request)))

    def collect(self) -> None:
        """Drop the tasks that are done. If one of them failed unexpectedly, raise its error."""
        if self._failure is not None:
            raise self._failure
        for task in [task for task in self._asking if task.done()]:
            self._asking.discard(task)
            task.result()

    def cancel(self) -> None:
        """Stop waiting for answers."""
        if self._gathering is not None:
            self._gathering.cancel()
        for task in self._asking:
            task.cancel()

    def _gathered(self) -> None:
        try:
            self.advance()
        except Exception as error:
            self._failure = error
        self._changed()

    def _admit(self) -> None:
        """Take the slots of all streams before the first request, or refuse the session."""
        session = self._session
        if self._holdings.reservations or not session.wanted:
            return
        streams = session.wanted
        try:
            self._holdings.take(session.start, streams)
        except Refused as refused:
            session.refuse(refused.code, refused.message, refused.retry_s)
            return
        except Loading as loading:
            session.await_model(time.monotonic())
            if self._loading is not loading.done:
                self._loading = loading.done
                loading.done.add_done_callback(lambda _: self._changed())
            return
        if (denied := self._holdings.prepare(session.start, streams)) is not None:
            session.refuse(denied.code, denied.message, denied.retry_s)

    async def _ask(self, stream: int, request: Request) -> None:
        session, reservation, started = self._session, self._holdings.reservations[stream], time.monotonic()
        moving = session.streams[stream].moving
        try:
            if request.start:
                events = await reservation.begin(request.options)
            else:
                events = await reservation.send(request.pcm, flush=request.flush, end=request.end)
        except LinkError as error:
            # The model quotes options that it refuses. They may contain a client's private words, such as hotwords.
            detail = "" if error.code == FailureCode.BAD_OPTIONS else error.message
            log.warning("request failed", stream=stream, code=error.code, detail=detail)
            now = time.monotonic()
            self._observed.failed(stream, error.code, now)  # before fail(), which clears the audio that will be resent
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
            self.advance()
        finally:
            self._changed()
