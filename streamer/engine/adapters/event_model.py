"""A model of Triton that gives the requests to a recogniser, and answers each one with one message of events."""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import triton_python_backend_utils as pb_utils

from streamer.base.codes import FailureCode
from streamer.base.events import Closed, Final, Heard, Opened, StreamEvent, as_json
from streamer.engine.adapters.batch_threads import PATIENCE_S, BatchThreads
from streamer.engine.adapters.held_requests import (
    HeldRequests,
    Precedence,
    Turn,
    in_turns,
    together_with_awaited,
    whose_turn,
)
from streamer.engine.adapters.instance import Instance
from streamer.engine.adapters.requests import END, START, InstanceMetrics, array, options_of, text
from streamer.engine.loading_times import LOADING, loading_line
from streamer.engine.public.graph_model import GraphModel
from streamer.engine.public.loading import load_public_model
from streamer.engine.public.sessions import on_gpu
from streamer.engine.recogniser import Chunk, Recogniser, StreamError
from streamer.engine.stream_events import StreamAnswer
from streamer.engine.stream_options import BadOptions, StreamOptions
from streamer.engine.waiting import Wait

SWEEP_S = 1.0  # the time between two checks for streams that get no audio any more
# A batch has as many streams as take about this time. What is left is computed with what has arrived meanwhile.
LONGEST_TURN_S = 0.1
# The same where several callers have streams. A batch of half as many takes hardly more than half of the time.
TURN_AMONG_CALLERS_S = 0.03
FEWEST_TOGETHER = 2
USUAL_TOGETHER = 16
# The most time for the second passes of other streams that a step waits for. A part that has begun is completed.
MOST_OWED_S = 0.05
# The same for steps of callers that have used more time. New steps may arrive meanwhile.
PRECEDENCE_S = 0.01
# Threads let a request for one step wait this long for those of other streams: two steps in one batch cost much less
# than two batches. Whoever ends or flushes a stream, or catches up, does not wait.
GATHERING_S = 0.03
# They do so only if at least so many other streams may come meanwhile, and until so many are there: with still more, a
# step costs hardly less.
FEWEST_OTHERS = 4
ENOUGH_TOGETHER = 8
PIPELINE = 2  # the threads of a pipelined recogniser: one for the networks, and one for the search
SWITCH_S = 0.0005  # the time after which a computing thread lets another one use the interpreter: at most a slice
# The same in a pipeline. A search needs the interpreter again after each of its loops, and many of them are short.
PIPELINE_SWITCH_S = 0.0001
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class EventModel(ABC):
    """An instance: a recogniser with one slot for each sequence that Triton may send."""

    @abstractmethod
    def load(self, instance: Instance) -> Recogniser:
        """Load the recogniser."""

    def content(self, request: Any) -> Any:
        """Return the content of a request for the recogniser. StreamError if it cannot be used."""
        return array(request, "AUDIO")

    def samples(self, request: Any) -> int:
        """Return the number of samples of audio that a request brings."""
        return len(array(request, "AUDIO"))

    def options(self, request: Any) -> dict[str, object]:
        """Return the options of a request."""
        return options_of(request)

    def other_events(self, request: Any) -> list[str]:
        """Return the events of other heads that a request brings, as JSON."""
        return []

    def text(self, event: StreamEvent) -> str:
        """Return an event as JSON."""
        return as_json(event)

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the recogniser."""
        LOADING.mark("Python and libraries")
        self._instance = Instance(args)
        self._recogniser = self.load(self._instance)
        self._has_parameters = hasattr(pb_utils.InferenceResponse, "parameters")  # since Triton 2.55
        self._metrics = InstanceMetrics(self._instance)
        self._precedence = Precedence()
        # The requests of streams that wait. The first request of a stream is its START, or has the rest of a chunk.
        self._held: HeldRequests[_PendingRequest] = HeldRequests(self._recogniser.model.sample_rate)
        self._computing: dict[int, Any] = {}  # the requests that are neither held nor answered, by stream
        self._step_s = LONGEST_TURN_S / USUAL_TOGETHER  # the time that one step of one stream took a moment ago
        self._owed_s = 0.0  # the time that second passes must still get for the steps so far
        self._work = threading.Event()  # set if a stream waits, or if a held request is due
        self._stopping = threading.Event()
        self._between_steps = threading.Thread(target=self._work_between_steps, name="between steps", daemon=True)
        # The collector ignores all objects that exist now: to search them would delay all streams by 0.1 s.
        gc.freeze()
        sys.setswitchinterval(SWITCH_S)  # with the default, a step would wait for 5 ms before it could request its turn
        self._threads: BatchThreads | None = None
        self._step_samples = min(self._recogniser.model.step_ms) * self._recogniser.model.sample_rate // 1000
        if self._recogniser.pipelined:
            sys.setswitchinterval(PIPELINE_SWITCH_S)
            # One searches a batch while the other one has the networks. Neither waits for streams that are not due.
            self._threads = self._batch_threads(PIPELINE, math.inf)
            self._recogniser.meanwhile(self._precedence.meanwhile, self._threads.let_another_begin)
        elif self._recogniser.concurrent:
            self._recogniser.meanwhile(self._precedence.meanwhile)
            self._threads = self._batch_threads(self._instance.threads, PATIENCE_S)
        self._between_steps.start()
        LOADING.mark("rest")
        pb_utils.Logger.log_info(loading_line(self._instance.name))

    def execute(self, requests: list[Any]) -> None:
        """Answer every request with one message: its events or its error. If its stream waits, this comes later."""
        if self._threads is not None:
            self._give(requests, self._threads)
            return
        self._metrics.in_flight(self._held.requests + len(requests))
        with self._precedence.step():
            self._metrics.begin(requests)
            self._take_turn(requests)
            self._metrics.in_flight(self._held.requests)

    def finalize(self) -> None:
        """Release the streams and the model. Triton sends no more requests."""
        self._stopping.set()
        self._work.set()
        self._between_steps.join(timeout=5)
        if self._threads is not None:
            self._threads.stop(timeout=5)
        with self._precedence.step():
            for pending in self._held.clear():
                self._fail(pending.request, StreamError(FailureCode.FAILED, "the model is being unloaded"))
            del self._recogniser

    def _batch_threads(self, number: int, patience_s: float) -> BatchThreads:
        return BatchThreads(number, self._take_turn_in_thread, self._report_failure, patience_s)

    def _give(self, requests: Sequence[Any], threads: BatchThreads) -> None:
        """Hold these requests until a thread computes them. Wait while too many of a stream are held."""
        waiting = deque(requests)
        while waiting:
            with self._precedence.step():
                turns = threads.turns
                while waiting and self._hold_until_computed(waiting[0]):
                    waiting.popleft()
                gathering_s = self._gathering_s(requests)
            threads.wake(gathering_s)
            if waiting:
                threads.wait_for_turn(turns)

    def _hold_until_computed(self, request: Any) -> bool:
        """Hold a request, or refuse it if too many are held while its stream is prepared. False: it must wait."""
        stream = request.correlation_id()
        if stream not in self._held:
            self._held.put_back(stream, _PendingRequest(request))
            return True
        try:
            self._held.hold(stream, _PendingRequest(request), self.samples(request))
        except StreamError as error:
            if self._recogniser.waits_for(stream) is not Wait.PREPARATION:
                return False
            self._fail(request, error)
        return True

    def _gathering_s(self, requests: Sequence[Any]) -> float:
        """Return how long these requests, which are held, may wait for those of other streams."""
        if self._recogniser.pipelined:
            return 0.0
        held = len(self._held)
        others = self._recogniser.live - held - len(self._computing)
        alone = others < FEWEST_OTHERS or held >= ENOUGH_TOGETHER
        return 0.0 if alone or not all(map(self._may_wait, requests)) else GATHERING_S

    def _may_wait(self, request: Any) -> bool:
        """Return whether a request brings one step and wants nothing else.

        Much shorter ones do not wait, so that a client may send one at a time.
        """
        try:
            samples, plain = self.samples(request), text(request, "OPTIONS") in ("", "{}")
        except Exception:  # the answer will say what is wrong with it
            return False
        return plain and not request.flags() and self._step_samples <= 2 * samples <= 2 * self._step_samples

    def _take_turn_in_thread(self) -> None:
        """Compute what is due."""
        with self._precedence.step():
            self._metrics.in_flight(self._held.requests + len(self._computing))
            self._take_turn()
            self._metrics.in_flight(self._held.requests + len(self._computing))

    def _take_turn(self, arrived: Sequence[Any] = ()) -> None:
        """Go on with second passes, or with the requests that are held or have arrived, or with both."""
        fresh = [_PendingRequest(request) for request in arrived if not self._hold(request)]
        taken = self._held.due(self._waits) + fresh
        self._computing |= {pending.request.correlation_id(): pending.request for pending in taken}
        if self._threads is not None:
            self._metrics.begin([request for request, chunk in taken if chunk is None])
        try:
            self._go_on(taken)
        except Exception as error:  # an error in our code: every request without an answer still gets one
            self._report_failure(error)
            for request, _ in taken:
                if self._computing.get(request.correlation_id()) is request:
                    self._fail(request, error)
        # What has arrived meanwhile of other streams has woken a thread.
        if self._threads is not None and any(request.correlation_id() in self._held for request, _ in taken):
            self._threads.wake()

    def _go_on(self, taken: Sequence[_PendingRequest]) -> None:
        due = self._chunks(taken)
        shares = self._recogniser.shares
        callers = {self._recogniser.caller(chunk.stream) for _, chunk in due}
        shares.compare(callers)
        turn_s = TURN_AMONG_CALLERS_S if self._recogniser.callers > 1 else LONGEST_TURN_S
        turn = whose_turn(self._recogniser.next_second_pass, callers, shares.used_s)
        self._work_for_waiting(self._second_passes_s(turn, any_steps=bool(due)))
        if turn is Turn.SECOND_PASSES:
            for request, chunk in due:
                self._wait(request, chunk)
            return
        if due:
            since = time.perf_counter()
            self._compute(due, turn_s)
            self._owed_s = min(turn_s, MOST_OWED_S, self._owed_s + time.perf_counter() - since)

    def _waits(self, stream: int) -> bool:
        """Return whether a stream must wait: for work of its own, or because another thread computes it."""
        return stream in self._computing or self._recogniser.waits_for(stream) is not None

    def _second_passes_s(self, turn: Turn, *, any_steps: bool) -> float | None:
        """Return the time that second passes have in this turn, besides a slice; None if they have none."""
        if turn is Turn.STEPS:
            return None
        if turn is Turn.SECOND_PASSES and any_steps:
            return PRECEDENCE_S
        # As much as the steps have taken. Otherwise the batches of steps would become smaller and smaller, and so take
        # more time, and less and less time would remain for second passes.
        return self._owed_s

    def _chunks(self, pending: Sequence[_PendingRequest]) -> list[tuple[Any, Chunk]]:
        """Return the requests that can be computed, each with its chunk. Hold those whose streams are prepared first.

        Opens the streams of those that begin one.
        """
        ready: list[tuple[Any, Chunk]] = []
        for request, known in pending:
            try:
                chunk = known or self._chunk(request)
            except Exception as error:
                self._fail(request, error)
                continue
            if self._recogniser.waits_for(chunk.stream) is Wait.PREPARATION:
                self._wait(request, chunk)
            else:
                ready.append((request, chunk))
        return ready

    def _compute(self, due: Sequence[tuple[Any, Chunk]], turn_s: float) -> None:
        """Compute one batch of these requests, and hold the others, and what is left after this time."""
        recogniser = self._recogniser
        ordered = in_turns(
            due,
            lambda entry: recogniser.caller(entry[1].stream),
            recogniser.shares.used_s,
            self._step_s,
            _is_awaited,
        )
        usual = max(FEWEST_TOGETHER, int(turn_s / self._step_s))
        size = usual
        if recogniser.concurrent and not recogniser.pipelined:
            size = together_with_awaited(usual, len(due), sum(map(_is_awaited, due)))
        together, others = ordered[:size], ordered[size:]
        for request, chunk in others:
            self._wait(request, chunk)
        if others and self._threads is not None:
            self._threads.wake()
        since, steps = time.perf_counter(), recogniser.steps
        # While others wait, each has one step.
        self._compute_together(together, until=0.0 if others else since + turn_s)
        computed, took_s = recogniser.steps - steps, time.perf_counter() - since
        # Small and large batches of several threads follow each other. A step takes longer in a small one, which says
        # nothing of the next large one.
        if computed and (self._threads is None or 2 * computed >= usual or took_s > turn_s):
            self._step_s = took_s / computed
        self._report()

    def _compute_together(self, batch: Sequence[tuple[Any, Chunk]], until: float) -> None:
        """Compute these requests as one batch, and hold what is left of them at this time."""
        unanswered = {place: request for place, (request, _) in enumerate(batch)}
        chunks = [chunk for _, chunk in batch]
        try:
            for place, answer in self._recogniser.step_without_waiting(chunks, lambda: time.perf_counter() > until):
                request = unanswered.pop(place)
                if isinstance(answer, Chunk):
                    self._wait(request, answer)
                else:
                    self._reply(request, answer)
        except Exception as error:  # an error in our code: every request without an answer still gets one
            for request in unanswered.values():
                self._fail(request, error)
        samples = sum(len(chunk.samples) for chunk in chunks)
        self._metrics.batch(len(chunks))
        self._metrics.audio(samples / self._recogniser.model.sample_rate)

    def _wait(self, request: Any, chunk: Chunk) -> None:
        """Hold a request until its stream waits no longer, or until the next batch. Then this chunk is computed."""
        self._held.put_back(chunk.stream, _PendingRequest(request, chunk))
        self._computing.pop(chunk.stream, None)
        self._recogniser.keep(chunk.stream)
        self._work.set()

    def _hold(self, request: Any) -> bool:
        """Hold a request if earlier requests of its stream are held. Return False if it can be computed now.

        If too many are held, the request is refused if the stream is being prepared. Otherwise the held requests are
        computed first: the client does not know of second passes, and may send a recording as fast as it can.
        """
        stream = request.correlation_id()
        while stream in self._held:
            try:
                self._held.hold(stream, _PendingRequest(request), self.samples(request))
            except StreamError as error:
                if self._recogniser.waits_for(stream) is not Wait.PREPARATION:
                    self._compute_together(self._chunks([self._held.take(stream)]), until=float("inf"))
                    continue
                self._fail(request, error)
            return True
        return False

    def _work_for_waiting(self, second_passes_s: float | None) -> None:
        """Work for streams that wait, for a slice of time, and at second passes for this time.

        When a stream waits no longer, its requests are due.
        """
        since = time.perf_counter()
        for stream, error in self._recogniser.work(second_passes_s):
            # While a batch is computed, a stream of it may wait for a second pass. Its thread finds that it is closed.
            if error is not None and stream not in self._computing:
                self._fail(self._held.take(stream).request, error)
        self._owed_s = max(0.0, self._owed_s - (time.perf_counter() - since))

    def _work_between_steps(self) -> None:
        swept_at = time.monotonic()
        while not self._stopping.is_set():
            waits = self._work.wait(SWEEP_S)
            try:
                with self._precedence.other():
                    if self._threads is None:
                        self._take_turn()
                    else:
                        self._work_for_waiting(0.0)
                    pause_s, due = self._recogniser.pause_s, waits and self._held.any_due(self._waits)
                    # Threads take what is due. Without them, this one does.
                    if not self._held if self._threads is None else pause_s is None:
                        self._work.clear()
                    # Streams must expire even when no request comes, and so nobody calls execute().
                    if time.monotonic() - swept_at >= SWEEP_S:
                        swept_at = time.monotonic()
                        self._recogniser.expire()
                        self._report()
                if due and self._threads is not None:
                    self._threads.wake()
                if pause_s and not due:  # all work waits for something outside
                    self._stopping.wait(pause_s)
            except Exception as error:  # this thread must not end, because streams depend on it
                self._report_failure(error)
                time.sleep(SWEEP_S)

    def _report_failure(self, error: Exception) -> None:
        pb_utils.Logger.log_error(f"the work for streams failed: {error!r}")

    def _report(self) -> None:
        recogniser = self._recogniser
        self._metrics.streams(recogniser.live, recogniser.expired, recogniser.unprepared)

    def _chunk(self, request: Any) -> Chunk:
        stream, flags = request.correlation_id(), request.flags()
        fields = self.options(request)
        flush = fields.pop("flush", False)
        if not isinstance(flush, bool):
            raise StreamError(FailureCode.BAD_OPTIONS, "option 'flush' must be true or false")
        if flags & START:
            try:
                recogniser = self._recogniser
                options = StreamOptions.from_dict(fields, recogniser.model.step_ms, list(recogniser.searches))
            except BadOptions as error:
                raise StreamError(FailureCode.BAD_OPTIONS, str(error)) from None
            self._recogniser.open(stream, options, at_once=False)
        elif fields:
            raise StreamError(
                FailureCode.BAD_OPTIONS, f"{', '.join(fields)} can only be set with the START of a stream"
            )
        return Chunk(stream, self.content(request), flush=flush, end=bool(flags & END))

    def _reply(self, request: Any, answer: StreamAnswer) -> None:
        if isinstance(answer, StreamError):
            self._fail(request, answer)
            return
        try:
            self._send(request, self._response(request, answer))
        except Exception as error:
            self._fail(request, error)

    def _response(self, request: Any, events: list[StreamEvent]) -> Any:
        flags = request.flags()
        # How much was heard, and what must be computed again, are the last events.
        end = next((place for place, event in enumerate(events) if isinstance(event, Heard)), len(events))
        texts = [self.text(event) for event in events[:end]]
        if flags & START:
            texts.insert(0, self._opened(request.correlation_id()))
        texts += self.other_events(request)
        if flags & END:
            texts.append(as_json(Closed(self._recogniser.model.name, self._instance.name)))
        texts += [self.text(event) for event in events[end:]]
        tensor = pb_utils.Tensor("EVENTS", np.array([[text.encode() for text in texts]], dtype=np.object_))
        extra = {"parameters": _parameters(events)} if self._has_parameters else {}
        return pb_utils.InferenceResponse([tensor], **extra)

    def _opened(self, stream: int) -> str:
        recogniser = self._recogniser
        languages = tuple(recogniser.languages) or None
        told = recogniser.piece_ms(stream), languages, recogniser.own_step_ms(stream), recogniser.ahead_ms
        return as_json(Opened(recogniser.model.name, self._instance.name, *told))

    def _fail(self, request: Any, error: Exception) -> None:
        if request.flags() & END:
            # The stream ends even if its last request was wrong.
            self._recogniser.close(request.correlation_id())
        text = str(error) if isinstance(error, StreamError) else f"failed: {error}"
        self._send(request, pb_utils.InferenceResponse(error=pb_utils.TritonError(text)))

    def _send(self, request: Any, response: Any) -> None:
        stream = request.correlation_id()
        if self._computing.get(stream) is request:
            del self._computing[stream]
        request.get_response_sender().send(response, flags=FINAL)


class _PendingRequest(NamedTuple):
    """A request without an answer, and the chunk to compute for it if its stream is open already."""

    request: Any
    chunk: Chunk | None = None


def _is_awaited(entry: tuple[Any, Chunk]) -> bool:
    return entry[1].awaited


def _parameters(events: list[StreamEvent]) -> dict[str, object]:
    finals = [event for event in events if isinstance(event, Final)]
    audio_ms = [event.audio_ms for event in events if isinstance(event, Heard)]
    parameters: dict[str, object] = {"final": bool(finals), "audio_ms": audio_ms[-1] if audio_ms else 0}
    if finals:
        parameters["segment"] = finals[-1].segment
    return parameters


# A public model as one model of Triton. It gets audio and gives events.


class TritonPythonModel(EventModel):
    """An instance. Its configuration names the folder of the public model."""

    def load(self, instance: Instance) -> Recogniser:
        """Load the recogniser. ModelFolderError says what is wrong with the folder."""
        gpu = instance.gpu
        recogniser = load_public_model(
            instance.bundle,
            name=instance.model,
            slots=instance.slots,
            idle_limit_s=instance.idle_limit_s,
            placement=None if gpu is None else on_gpu(gpu),
        )
        if isinstance(recogniser.model, GraphModel):
            recogniser.model.prepare_batches()
        return recogniser
