"""OpenTelemetry traces, if they are enabled: every session is a trace.

Its spans are the session itself, its admission, each segment up to its final (with the number and duration of
requests to the model), the calls of a reader, each recovery, and slow requests. Other requests have no span,
because there are three a second. Spans contain times and numbers, but no words. The packages of the extra `traces`
are needed, and are imported only then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from streamer.base import events
from streamer.base.codes import ErrorCode, QuietEnding
from streamer.base.events import ServerMessage
from streamer.base.package import install_command

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

    from streamer.bridge.session.session import Session

# A request that takes longer than this gets a span of its own.
SLOW_S: Final = 1.0
# How long one export may take, and how long the collector may take for the rest at the end.
EXPORT_LIMIT_S: Final = 3.0
GIVE_UP_LIMIT_S: Final = 1.0
# Codes of endings that are faults of the service.
FAULTS: Final = (ErrorCode.FAILED, ErrorCode.INTERNAL, QuietEnding.CUT_OFF)

# Environment variables that may name a collector.
COLLECTORS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class TracesError(Exception):
    """Traces are enabled but cannot be sent. The message is a sentence for the user."""


class Tracing:
    """Sends traces to a collector. Sessions do not wait for it: spans that it does not take in time are dropped."""

    def __init__(self, processor: SpanProcessor, give_up: Callable[[], None] | None = None) -> None:
        """`give_up`: stops a processor that waits for its collector."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        # The environment's variables for the resource apply, and so does its OTEL_TRACES_SAMPLER.
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "streamer"}))
        self._give_up = give_up
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("streamer")

    @staticmethod
    def in_environment() -> bool:
        """Return whether the environment names a collector, in OpenTelemetry's own variables."""
        return any(os.environ.get(name) for name in COLLECTORS)

    @classmethod
    def towards(cls, url: str | None) -> Tracing:
        """Send traces to a collector by OTLP over gRPC; without a URL, to the one that the environment names."""
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise TracesError(f"traces need the package {error.name}: {install_command('traces')}.") from error
        exporter = OTLPSpanExporter(endpoint=url, timeout=EXPORT_LIMIT_S)
        return cls(BatchSpanProcessor(exporter), exporter.shutdown)

    def begin(self, session: Session, protocol: str) -> Trace:
        """Begin the trace of a session."""
        return Trace(self, session, protocol)

    def span(self, name: str, began: float, attributes: Mapping[str, Any], parent: Span | None = None) -> Span:
        """Make a span that began at this time of the monotonic clock."""
        from opentelemetry.trace import set_span_in_context

        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, attributes=dict(attributes), start_time=nanoseconds(began))

    def close(self) -> None:
        """Send the remaining spans, within a few seconds."""
        # The library itself would try for half a minute, so this happens in a thread that may be left behind.
        shutdown = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        shutdown.start()
        shutdown.join(EXPORT_LIMIT_S)
        if shutdown.is_alive() and self._give_up is not None:
            self._give_up()
            shutdown.join(GIVE_UP_LIMIT_S)


class Trace:
    """The trace of one session. SessionMetrics reports events to it."""

    def __init__(self, tracing: Tracing, session: Session, protocol: str) -> None:
        self._tracing = tracing
        self._session = session
        now = time.monotonic()
        self._root = tracing.span("session", now, {"session.id": session.number, "streamer.protocol": protocol})
        self._since = now  # when the present part began: at the opening, at `start`, at `ready` or after the last final
        self._requests = 0
        self._answer_s = self._slowest_s = 0.0
        self._cause = ""

    def note_start(self, now: float) -> None:
        """Note that `start` came."""
        start = self._session.start
        self._root.set_attributes(
            {
                "audio.encoding": start.encoding,
                "audio.sample_rate": start.sample_rate,
                "audio.channels": start.channels,
                "streamer.step_ms": start.step_ms,
                "streamer.live": start.live,
            }
        )
        self._since = now

    def note_answer(self, seconds: float, now: float, reader_s: float | None = None) -> None:
        """Note that a request was answered after this time, in which the model asked a reader for `reader_s`."""
        self._requests += 1
        self._answer_s += seconds
        self._slowest_s = max(self._slowest_s, seconds)
        if seconds >= SLOW_S:
            self._part("request", now - seconds, now)
        if reader_s is not None:
            self._part("reader", now - reader_s, now)  # the answer follows the reading at once

    def note_failure(self, code: str, now: float) -> None:
        """Note that a request failed."""
        self._cause = self._cause or code
        self._root.add_event("request failed", {"code": code}, nanoseconds(now))

    def note_message(self, message: ServerMessage, now: float) -> None:
        """Note that a message was sent."""
        if isinstance(message, events.Ready):
            self._part("admission", self._since, now)
            self._since = now
        elif isinstance(message, events.Recovered):
            self._part("recovery", now - message.gap_ms / 1000, now, cause=self._cause)
            self._cause = ""
        elif isinstance(message, events.Final):
            numbers: dict[str, int | str] = {
                "segment": message.segment,
                "start_ms": message.start_ms,
                "end_ms": message.end_ms,
            }
            if message.channel is not None:
                numbers["channel"] = message.channel
            if message.read_by is not None:
                numbers["read_by"] = message.read_by.value
            answers = {"requests": self._requests, "answer_s": self._answer_s, "slowest_answer_s": self._slowest_s}
            self._part("segment", self._since, now, **numbers, **answers)
            self._since, self._requests, self._answer_s, self._slowest_s = now, 0, 0.0, 0.0

    def end(self, now: float) -> None:
        """End the trace with the session."""
        from opentelemetry.trace import Status, StatusCode

        reason = self._session.ended_by or ""
        self._root.set_attributes({"streamer.ended_by": reason, "streamer.audio_ms": self._session.heard_ms})
        if reason in FAULTS:
            self._root.set_status(Status(StatusCode.ERROR, reason))
        self._root.end(nanoseconds(now))

    def _part(self, name: str, began: float, now: float, **attributes: Any) -> None:
        prefixed = {f"streamer.{key}": value for key, value in attributes.items()}
        self._tracing.span(name, began, prefixed, self._root).end(nanoseconds(now))


def nanoseconds(at: float) -> int:
    """Convert a time of the monotonic clock to nanoseconds since 1970, by the system's present clock."""
    return time.time_ns() - int((time.monotonic() - at) * 1e9)
