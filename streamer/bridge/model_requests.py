"""The requests of one session to the model, and the slots that the session holds meanwhile.

The slots for all streams are taken before the first request. If there are too few, the session is refused. If the model
must be loaded first, the session waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from streamer.base.codes import FailureCode
from streamer.base.events import Heard
from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.session.session import Session
from streamer.bridge.session.speakers import Answer, Question
from streamer.bridge.session.stream import Request
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.session_metrics import SessionMetrics
from streamer.bridge.triton.link import ConnectionLost, LinkError
from streamer.bridge.upstreams.admission import Admission, Loading, Refused
from streamer.bridge.upstreams.pool import Reservation
from streamer.bridge.upstreams.speaker_calls import ask_about_speakers
from streamer.wire.options import Start

log = Log("streamer.bridge")

# Audio waits this long for a flush that may follow at once, so that both go in one request. Otherwise the flush would
# wait for the answer to the audio, because a stream has one request under way at a time.
GATHER_S = 0.001


class ModelRequests:
    """Sends the session's requests to the model, and gives the session the answers and failures."""

    def __init__(
        self,
        session: Session,
        holdings: Holdings,
        session_metrics: SessionMetrics,
        on_change: Callable[[], None],
        on_progress: Callable[[], None],
    ) -> None:
        """`on_progress` is called after requests and answers, and `on_change` after failures and loading."""
        self._session = session
        self._holdings = holdings
        self._session_metrics = session_metrics
        self._on_change = on_change
        self._on_progress = on_progress
        self._tasks: set[asyncio.Task[None]] = set()  # at most one for each stream
        self._gathering: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None  # of sending what was gathered
        self._loading: asyncio.Future[None] | None = None  # of the model, if the session waits for it

    def gather(self) -> None:
        """Send the session's requests in a moment, together with what comes until then."""
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._end_gathering)

    def advance(self, *, at_once: bool = True) -> None:
        """Send the session's requests now. Without `at_once`, wait for the end of a moment that gather() has begun."""
        if self._gathering is not None:
            if not at_once:
                return
            self._gathering.cancel()
            self._gathering = None
        self._admit()
        if not self._holdings.reservations:  # not admitted yet, or everything was given back
            return
        for stream, request in self._session.requests(time.monotonic()):
            self._tasks.add(asyncio.create_task(self._ask(stream, request)))
        for stream, question in self._session.questions(time.monotonic()):
            self._tasks.add(asyncio.create_task(self._ask_about_speakers(stream, question)))

    def collect(self) -> None:
        """Drop the tasks that are done. If one of them failed unexpectedly, raise its error."""
        if self._failure is not None:
            raise self._failure
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.discard(task)
            task.result()

    def cancel(self) -> None:
        """Stop waiting for answers."""
        if self._gathering is not None:
            self._gathering.cancel()
        for task in self._tasks:
            task.cancel()

    def _end_gathering(self) -> None:
        try:
            self.advance()
            self._on_progress()
        except Exception as error:
            self._failure = error
            self._on_change()

    def _admit(self) -> None:
        """Take the slots of all streams before the first request, or refuse the session."""
        session = self._session
        streams = session.slots_needed
        if self._holdings.reservations or not streams:
            return
        try:
            self._holdings.take(session.start, streams)
        except Refused as refused:
            session.refuse(refused.code, refused.message, refused.retry_s)
            return
        except Loading as loading:
            session.await_model(time.monotonic())
            if self._loading is not loading.done:
                self._loading = loading.done
                loading.done.add_done_callback(lambda _: self._on_change())
            return
        if (denied := self._holdings.prepare(session.start, streams)) is not None:
            session.refuse(denied.code, denied.message, denied.retry_s)

    async def _ask(self, stream: int, request: Request) -> None:
        session, reservation, started = self._session, self._holdings.reservations[stream], time.monotonic()
        moving, answered = session.streams[stream].moving, False
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
            self._session_metrics.note_failure(
                stream, error.code, now
            )  # before fail(), which clears the audio to send again
            session.fail(stream, error.code, error.message, now, lost=isinstance(error, ConnectionLost))
        else:
            now = time.monotonic()
            if request.start:
                session.serve(reservation.upstream.model)
                if moving:
                    self._session_metrics.note_move()
                    log.info("moved", stream=stream, model=reservation.upstream.model)
            session.answer(stream, events, now, leaving=reservation.leaving)
            reader_ms = next((event.reader_ms for event in events if isinstance(event, Heard)), None)
            self._session_metrics.note_answer(now - started, now, None if reader_ms is None else reader_ms / 1000)
            self.advance()
            self._on_progress()
            answered = True
        finally:
            if not answered:
                self._on_change()
            elif (task := asyncio.current_task()) is not None:
                self._tasks.discard(task)

    async def _ask_about_speakers(self, stream: int, question: Question) -> None:
        upstream = self._holdings.reservations[stream].upstream
        answer: Answer | str
        try:
            answer = await ask_about_speakers(upstream.link, question)
        except LinkError as error:
            log.warning("no speakers", stream=stream, code=error.code, detail=error.message)
            answer = error.message
        self._session.answer_about_speakers(stream, answer, time.monotonic())
        self.advance()
        self._on_change()


class Holdings:
    """The slots and the quota of one session, from its admission until it gives them back."""

    def __init__(self, admission: Admission, admittance: Admittance | None) -> None:
        """`admittance`: counts the session for its caller's quotas, or None if nothing is counted."""
        self._admission = admission
        self._admittance = admittance
        self.reservations: list[Reservation] = []  # one for each stream
        self._model = ""  # its public name

    def take(self, start: Start, streams: int) -> None:
        """Take the slots of all streams. Raise Refused if there are too few, and Loading if the model is not loaded."""
        options = start.model_options()
        if self._admittance is not None:  # the recogniser gives callers equal shares of what streams wait for
            options["caller"] = self._admittance.pseudonym
        self.reservations = self._admission.take(options, streams, start.model, self)
        self._model = start.model

    @property
    def caller(self) -> str:
        """A name of the caller among others, for turns; empty if there are none."""
        return "" if self._admittance is None else self._admittance.pseudonym

    def prepare(self, start: Start, streams: int) -> Denied | None:
        """Charge the preparation of these streams to the caller. Return the refusal if it is too much for now."""
        if self._admittance is None:
            return None
        return self._admittance.prepare([hotword.text for hotword in start.hotwords], streams)

    def charge(self, seconds: float) -> Denied | None:
        """Charge received audio to the caller. Return the refusal if the caller may send no more for now."""
        return None if self._admittance is None else self._admittance.charge(seconds)

    def give_back(self) -> None:
        """Give everything back. This may be called again."""
        reservations, self.reservations = self.reservations, []
        self._admission.forget(self)
        if reservations:
            self._admission.give_back(reservations, self._model)
        admittance, self._admittance = self._admittance, None
        if admittance is not None:
            admittance.leave()
