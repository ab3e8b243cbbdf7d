"""What the service tells Prometheus. Every metric is defined here; several services of one process do not clash.

Labels take words from lists that are written down: whatever else comes is counted as `other`, so that no client and no
model can make series. docs/how-to/operations.md says what each metric means. What batches the recogniser computes
it tells itself, at Triton's /metrics.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamer.bridge.session.presence import ClientState
from streamer.bridge.session.session import State
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.failures import Failures
from streamer.wire.failures import FailureCode

if TYPE_CHECKING:
    from streamer.bridge.telemetry.traces import Tracing

PROTOCOLS: Final = ("native",)
OTHER: Final = "other"
PARKED: Final = ClientState.PARKED.value
STATES: Final = (*(state.value for state in State), PARKED)
# Whether a client sends audio as it is spoken, or faster: then it makes itself wait, and its latencies tell nothing
# about the service.
REAL_TIME: Final = "real_time"
AHEAD: Final = "ahead"
PACES: Final = (REAL_TIME, AHEAD)
# Why a session ended or was refused: the code words of errors, and how a connection can end without one.
REASONS: Final = (
    "audio_used_up",
    "bad_json",
    "bad_message",
    "bad_option",
    "bad_origin",
    "bad_resume",
    "busy",
    "cut_off",
    "done",
    "failed",
    "full",
    "hotwords_used_up",
    "idle",
    "internal",
    "no_start",
    "not_fetched",
    "not_read",
    "not_ready",
    "not_utf8",
    "odd_bytes",
    "shutting_down",
    "too_fast",
    "too_large",
    "too_many_sessions",
    "unauthorized",
    "unexpected",
    "unknown_model",
    "unknown_option",
    "unknown_token",
    "unknown_type",
    "unsupported_audio",
    "vanished",
)
# Why a request to the model failed: the link's code words and the model's.
FAILURES: Final = tuple(sorted(code.value for code in FailureCode))
MESSAGES: Final = (
    "ready",
    "partial",
    "final",
    "speech",
    "heard",
    "flushed",
    "recovered",
    "done",
    "error",
)

# Why the port cut off a connection: too many were opening, its TLS failed, it sent or read too slowly.
DROPS: Final = ("not_read", "tls", "too_many", "too_slow")

# Where something failed that nothing from outside should make fail.
HTTP, SESSION, CONTROL, EVENT_LOOP = "http", "session", "control", "event_loop"
PARTS: Final = (CONTROL, EVENT_LOOP, HTTP, SESSION)

# A request answers within some tens of milliseconds when nothing is behind; the limit for an answer is the end.
_ANSWER_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5, 10, 30)
# From the arrival of the last audio that a message is about: computing, and waiting for it. A bucket for each 50 ms
# where a service that keeps up is, and wide ones where it is too late for anybody who waits.
_LATENCY_S: Final = (0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 15)
# After the last word comes the silence that ends a segment, a second of it unless the client wants another.
_TO_FINAL_S: Final = (0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 5, 10, 20)
# A step that is not yet whole is 0.16 to 0.64 s; a client that sends all at once is read until 10 s wait.
_LAG_S: Final = (0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
# Another instance goes on within a second; a server that starts again takes several.
_GAP_S: Final = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60)


class LiveSession(Protocol):
    """What is told of a session that there is now."""

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""

    @property
    def state(self) -> str:
        """One of STATES."""

    @property
    def pace(self) -> str:
        """One of PACES."""

    @property
    def lag_s(self) -> float:
        """Audio that came and is not acknowledged yet."""

    @property
    def backlog_bytes(self) -> int:
        """16 kHz audio that is not with the model yet."""

    @property
    def outgoing_messages(self) -> int:
        """Messages that the client has not taken yet."""

    @property
    def computing(self) -> int:
        """Requests with audio that the model has not answered."""


class Words:
    """A counter by code word, with `other` for the words that are not on its list."""

    def __init__(self, counter: Counter, words: Collection[str]) -> None:
        self._counter = counter
        self._words = frozenset(words)
        for word in (*words, OTHER):
            counter.labels(word)  # shown as 0 from the start: the first event is a rise, which `rate` sees

    def labels(self, word: str) -> Counter:
        """The count of this word."""
        return self._counter.labels(word if word in self._words else OTHER)


class Metrics:
    """The metrics of one service, in a registry of its own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, tracing: Tracing | None = None) -> None:
        """`tracing`: where the traces of its sessions go, if they are wanted."""
        self.tracing = tracing
        registry = self._registry = CollectorRegistry()
        self.live: set[LiveSession] = set()
        registry.register(_Sessions(self.live))
        # How many sequences each Triton model holds, by public name; the names are those that whoever runs the service
        # gave.
        self.held: Callable[[], Mapping[str, Mapping[str, int]]] = dict
        registry.register(_Models(self))
        # How many connections there are in each state.
        self.connections: Callable[[], Mapping[str, int]] = dict
        registry.register(_Connections(self))
        registry.register(_LogLines())
        registry.register(_Descriptors())

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"streamer_{name}", text, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"streamer_{name}", text, registry=registry)

        def words(name: str, text: str, label: str, known: Collection[str]) -> Words:
            return Words(Counter(f"streamer_{name}", text, [label], registry=registry), known)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"streamer_{name}", text, registry=registry, buckets=buckets)

        def by_pace(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            made = Histogram(f"streamer_{name}", text, ["pace"], registry=registry, buckets=buckets)
            for pace in PACES:
                made.labels(pace)
            return made

        # Whether it serves, and how full it is.
        self.ready = gauge("ready", "1 while sessions can be served.")
        self.sessions_limit = gauge("sessions_limit", "Most sequences at a time.")
        self.sessions = gauge("sessions", "Sessions that are served.")
        self.sequences = gauge("sequences", "Sequences that sessions hold: one each, or one a channel.")
        self.recognisers = gauge("recognisers", "Tritons that the service knows.")
        self.recognisers_ready = gauge("recognisers_ready", "Of them, those through which a sequence went just now.")
        # What became of sessions.
        self.sessions_opened = counter("sessions_opened", "Sessions that got ready.")
        self.sessions_ended = words("sessions_ended", "Sessions that ended after they were ready.", "reason", REASONS)
        self.refusals = words("refusals", "Connections closed by the service before ready.", "reason", REASONS)
        # What the port had to do with connections, whatever they were for.
        self.connections_dropped = words("connections_dropped", "Connections that the port cut off.", "reason", DROPS)
        self.accept_failures = counter("accept_failures", "Times that no connection could be accepted.")
        self.http_errors = counter("http_errors", "Failures inside the reader of HTTP and websockets.")
        # What nobody meant to happen, wherever it did.
        unexpected = words("unexpected_failures", "Exceptions that nobody meant to happen.", "part", PARTS)
        self._failures = {part: Failures(unexpected.labels(part).inc) for part in PARTS}

        def http_failed() -> None:
            self.http_errors.inc()
            unexpected.labels(HTTP).inc()

        self._failures[HTTP] = Failures(http_failed)
        # How soon words come.
        self.partial_latency = by_pace(
            "partial_latency_seconds", "From the arrival of the last audio of a partial until it is sent.", _LATENCY_S
        )
        self.final_latency = by_pace(
            "final_latency_seconds",
            "From the arrival of the audio, flush or stop that made a final until it is sent.",
            _LATENCY_S,
        )
        self.time_to_final = by_pace(
            "time_to_final_seconds", "From the arrival of the end of a final's last word until it is sent.", _TO_FINAL_S
        )
        # How far computing is behind.
        self.lag = by_pace("lag_seconds", "Audio received and not yet acknowledged, at each answer.", _LAG_S)
        self.session_lag = by_pace("session_lag_seconds", "The same of each session, where it was most.", _LAG_S)
        self.answer_seconds = histogram("answer_seconds", "From a request to the model until its answer.", _ANSWER_S)
        self.request_failures = words("request_failures", "Requests that the model did not answer.", "code", FAILURES)
        # What goes in and out.
        self.received_seconds = counter("received_seconds", "Audio received.")
        self.messages = words("messages", "Messages to clients.", "type", MESSAGES)
        # What was saved when something behind us broke.
        self.recoveries = words(
            "recoveries", "Sessions that went on after a failure, by what failed.", "cause", FAILURES
        )
        self.recovery_gap = histogram(
            "recovery_gap_seconds", "From a failure until the session went on where it was.", _GAP_S
        )
        self.replayed_seconds = counter("replayed_seconds", "Audio played again by recoveries.")
        self.moves = counter("moves", "Sequences that went on at another Triton or model at a cut, with nothing lost.")
        self.resumes = counter("resumes", "Sessions that went on over another connection.")

    def failures(self, part: str) -> Failures:
        """Where the failures of this part, one of PARTS, are counted and logged."""
        return self._failures[part]

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)


class _Models(Collector):
    """Which models are in use: one for each name, but while another takes over."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Asks for them."""
        held = GaugeMetricFamily(
            "streamer_model_sequences",
            "Sequences that sessions hold, by public name and Triton model.",
            labels=["name", "model"],
        )
        for name, models in self._metrics.held().items():
            for model, number in models.items():
                held.add_metric([name, model], number)
        yield held


class _Connections(Collector):
    """What the connections of the port are doing."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Asks for their numbers."""
        numbers = GaugeMetricFamily("streamer_connections", "Connections at the port, by state.", labels=["state"])
        for state, number in self._metrics.connections().items():
            numbers.add_metric([state], number)
        yield numbers


class _LogLines(Collector):
    """What became of the log, which all services of a process have together."""

    def collect(self) -> Iterable[Metric]:
        """Asks for the number."""
        text = "Lines of the log that were dropped because nobody took them."
        yield CounterMetricFamily("streamer_log_lines_dropped", text, logs.dropped())


class _Descriptors(Collector):
    """Files and sockets of the process, and how many it may have. Nothing where the system does not tell."""

    def collect(self) -> Iterable[Metric]:
        """Counts them."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        try:
            number = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 only the names; the folder itself is open, too
        except FileNotFoundError:
            return
        except OSError:  # there is none left to look with
            number = limit
        yield GaugeMetricFamily("streamer_descriptors", "Files and sockets that the service has open.", number)
        yield GaugeMetricFamily("streamer_descriptors_limit", "How many it may have open.", limit)


class _Sessions(Collector):
    """What is true of all sessions at the moment somebody asks: nothing to count up and down, so it cannot drift."""

    def __init__(self, live: set[LiveSession]) -> None:
        self._live = live

    def collect(self) -> Iterable[Metric]:
        """Looks at every session once."""
        number = {(protocol, state): 0 for protocol in PROTOCOLS for state in STATES}
        lag = dict.fromkeys(PACES, 0.0)
        backlog, outgoing, computing = 0, 0, 0
        for session in self._live:
            number[session.protocol, session.state] += 1
            lag[session.pace] = max(lag[session.pace], session.lag_s)
            backlog += session.backlog_bytes
            outgoing += session.outgoing_messages
            computing += session.computing
        sessions = GaugeMetricFamily(
            "streamer_sessions_by_state", "Sessions, also those that nobody has started.", labels=["protocol", "state"]
        )
        for (protocol, state), count in number.items():
            sessions.add_metric([protocol, state], count)
        yield sessions
        furthest = GaugeMetricFamily(
            "streamer_lag_max_seconds", "The lag of the session that is furthest behind.", labels=["pace"]
        )
        for pace, seconds in lag.items():
            furthest.add_metric([pace], seconds)
        yield furthest
        yield GaugeMetricFamily("streamer_backlog_bytes", "16 kHz audio that waits in the bridge.", backlog)
        yield GaugeMetricFamily("streamer_computing", "Requests with audio that the model has not answered.", computing)
        yield GaugeMetricFamily("streamer_outgoing_messages", "Messages that clients have not taken yet.", outgoing)
