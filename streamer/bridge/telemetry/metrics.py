"""The service's metrics for Prometheus. All of them are defined here; several services in a process do not clash.

Labels have only the values listed here; all others are counted as `other`, so that neither clients nor models can add
series. docs/how-to/monitoring.md explains each metric. The recogniser reports its batches itself, at Triton's /metrics.
"""

from __future__ import annotations

import os
import resource
from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamer.base.codes import ErrorCode, FailureCode, QuietEnding
from streamer.base.events import ServerMessage
from streamer.bridge.session.session import ClientState, State
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.telemetry.usage import ByKey, Usage
from streamer.wire.dialects import grpc_speech
from streamer.wire.dialects.formats import FORMATS
from streamer.wire.dialects.wyoming import Wyoming
from streamer.wire.events import Unknown

if TYPE_CHECKING:
    from streamer.bridge.telemetry.traces import Tracing

_ON_OTHER_PORTS: Final = (*grpc_speech.PROTOCOLS, Wyoming.protocol)
PROTOCOLS: Final = ("native", "http", "openai", *(kind.protocol for kind in FORMATS.values()), *_ON_OTHER_PORTS)
OTHER: Final = "other"
# Keys that have labels of their own: the first ones that were used. The rest counts as OTHER.
MOST_KEYS: Final = 50
PARKED: Final = ClientState.PARKED.value
STATES: Final = (*(state.value for state in State), PARKED)
# Whether a client sends audio as it is spoken, or faster. If faster, it waits for its own audio, and its latencies say
# nothing about the service.
REAL_TIME: Final = "real_time"
AHEAD: Final = "ahead"
PACES: Final = (REAL_TIME, AHEAD)
# What a client of plain HTTP may be told besides, and what ends nothing.
_OF_UPLOADS: Final = (
    ErrorCode.BAD_FORM,
    ErrorCode.BAD_REQUEST,
    ErrorCode.DAMAGED_AUDIO,
    ErrorCode.LATE_OPTION,
    ErrorCode.NO_AUDIO,
    ErrorCode.TOO_COSTLY,
    ErrorCode.TOO_LONG,
    ErrorCode.TOO_SLOW,
    ErrorCode.UNKNOWN_FORMAT,
    ErrorCode.UNSUPPORTED,
)
_OF_NOTHING: Final = (
    ErrorCode.AFTER_STOP,
    ErrorCode.BAD_HANDSHAKE,
    ErrorCode.FORBIDDEN,
    ErrorCode.HEAD_TOO_LARGE,
    ErrorCode.METHOD_NOT_ALLOWED,
    ErrorCode.NOT_FOUND,
    ErrorCode.SESSION_EXPIRED,
    ErrorCode.UPGRADE_REQUIRED,
)
# Why an upload ended, and why a session ended or was refused.
UPLOAD_REASONS: Final = tuple(sorted({each.value for each in (*ErrorCode, *QuietEnding) if each not in _OF_NOTHING}))
REASONS: Final = tuple(reason for reason in UPLOAD_REASONS if reason not in _OF_UPLOADS)
# Why a request to the model failed: the link's code words and the model's.
FAILURES: Final = tuple(sorted(code.value for code in FailureCode))
MESSAGES: Final[Sequence[str]] = [kind.type for kind in get_args(ServerMessage)]

# Why the port cut off a connection: too many were opening, its TLS failed, or it sent or read too slowly.
DROPS: Final = ("not_read", "proxy_header", "tls", "too_many", "too_slow")

# How the number of a model's instances changed, or that a change failed.
RAISED, LOWERED, FAILED = "raised", "lowered", "failed"
CHANGES: Final = (RAISED, LOWERED, FAILED)

# What became of an event for a webhook: its receiver took it, or it did not in time, or too many waited.
DELIVERED, GIVEN_UP, DROPPED = "delivered", "given_up", "dropped"
WEBHOOK_EVENTS: Final = (DELIVERED, GIVEN_UP, DROPPED)

# Whether a model could be loaded when a session asked for it.
LOADED = "loaded"
LOADS: Final = (LOADED, FAILED)

# The parts of the service in which unexpected failures are counted.
HTTP, SESSION, CONTROL, EVENT_LOOP, LOADING = "http", "session", "control", "event_loop", "loading"
PARTS: Final = (CONTROL, EVENT_LOOP, HTTP, LOADING, SESSION)

# A request is usually answered within some tens of milliseconds. The last bucket is the limit for an answer.
_ANSWER_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5, 10, 30)
# Latency counts from the arrival of the last audio of a message, and includes waiting and computing. The buckets are
# 50 ms wide where a service that keeps up is, and wide where it is too slow for live use.
_LATENCY_S: Final = (0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 2, 5, 15)
# This includes the silence after the last word that ends a segment: a second, unless the client sets another time.
_TO_FINAL_S: Final = (0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 5, 10, 20)
# An incomplete step is at most 0.16 to 0.64 s. A client that sends everything at once is read until 10 s wait.
_LAG_S: Final = (0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
# Another instance goes on within a second. Restarting a server takes several seconds.
_GAP_S: Final = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60)
# A model with torch needs some seconds. The last bucket is the limit for loading.
_LOAD_S: Final = (0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60)


class LiveSession(Protocol):
    """A present session, as the metrics see it."""

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""

    @property
    def model(self) -> str:
        """The public name of its model."""

    @property
    def state(self) -> str:
        """One of STATES."""

    @property
    def pace(self) -> str:
        """One of PACES."""

    @property
    def lag_s(self) -> float:
        """The audio that arrived and is not acknowledged yet."""

    @property
    def backlog_bytes(self) -> int:
        """The 16 kHz audio that has not been sent to the model."""

    @property
    def outgoing_messages(self) -> int:
        """The messages that have not been sent to the client."""

    @property
    def computing(self) -> int:
        """The requests with audio that the model has not answered."""


class Words:
    """A counter by code word. Words that are not on its list count as `other`."""

    def __init__(self, counter: Counter, words: Collection[str]) -> None:
        # They show 0 from the start, so that `rate` sees the first event. To look them up in the library takes longer
        # than to count.
        self._counters: dict[str, Counter] = {word: counter.labels(word) for word in (*words, OTHER)}
        self._other = self._counters[OTHER]

    def labels(self, word: str) -> Counter:
        """Return the counter of this word."""
        return self._counters.get(word, self._other)


class Paces:
    """A histogram for each of PACES."""

    def __init__(self, family: Histogram) -> None:
        self._histograms: dict[str, Histogram] = {pace: family.labels(pace) for pace in PACES}

    def labels(self, pace: str) -> Histogram:
        """Return the histogram of this pace."""
        return self._histograms[pace]


class Metrics:
    """The metrics of one service, in a registry of its own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, tracing: Tracing | None = None) -> None:
        """`tracing`: where the traces of sessions go, if there are any."""
        self.tracing = tracing
        registry = self._registry = CollectorRegistry()
        self.live: set[LiveSession] = set()
        registry.register(_Sessions(self.live))
        self.usage: ByKey = {}  # since the start, by the name of the key
        registry.register(_Keys(self.usage))
        # How many sequences sessions hold, by public name and Triton model. The operator chooses these names.
        self.held: Callable[[], Mapping[str, Mapping[str, int]]] = dict
        # How many models are in each state of loading.
        self.model_states: Callable[[], Mapping[str, int]] = dict
        # How many instances each public model has and should have, if the number follows the load.
        self.instances: Callable[[], Mapping[str, tuple[int, int]]] = dict
        registry.register(_Models(self))
        # How many connections there are in each state.
        self.connections: Callable[[], Mapping[str, int]] = dict
        registry.register(_Connections(self))
        # How many events and fields of later models the service has ignored.
        self.unknown: Callable[[], Counts[Unknown]] = Counts
        registry.register(_Unknown(self))
        self.worker_starts = 0  # how often this worker was started; 0 for a service in one process
        registry.register(_Worker(self))
        # Whether this bridge counts together with others, how many these are, and what was ignored of the store.
        self.bridges: Callable[[], tuple[bool, int, int] | None] = lambda: None
        registry.register(_Bridges(self))
        registry.register(_LogLines())
        registry.register(_Descriptors())

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"streamer_{name}", text, registry=registry)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"streamer_{name}", text, registry=registry)

        def words(name: str, text: str, label: str, values: Collection[str]) -> Words:
            return Words(Counter(f"streamer_{name}", text, [label], registry=registry), values)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"streamer_{name}", text, registry=registry, buckets=buckets)

        def by_pace(name: str, text: str, buckets: tuple[float, ...]) -> Paces:
            return Paces(Histogram(f"streamer_{name}", text, ["pace"], registry=registry, buckets=buckets))

        # Readiness and load.
        self.ready = gauge("ready", "1 while sessions can be served.")
        self.sessions_limit = gauge("sessions_limit", "The most sequences at a time.")
        self.sessions = gauge("sessions", "Sessions that are being served.")
        self.sequences = gauge("sequences", "Sequences that sessions hold: one each, or one for each channel.")
        self.recognisers = gauge("recognisers", "Tritons that the service knows.")
        self.recognisers_ready = gauge("recognisers_ready", "Tritons where every model passed a probe just now.")
        self.readers_ready = gauge("readers_ready", "Tritons whose reader of segments answered just now.")
        text = "Changes of the number of a model's instances."
        self.instance_changes = words("instance_changes", text, "change", CHANGES)
        self.model_loads = words("model_loads", "Models loaded on demand, by what became of it.", "result", LOADS)
        self.models_let_go = counter("models_let_go", "Models unloaded because another one needed the memory.")
        self.model_load_seconds = histogram("model_load_seconds", "How long loading a model on demand took.", _LOAD_S)
        # How sessions began and ended.
        self.sessions_opened = counter("sessions_opened", "Sessions that became ready.")
        self.sessions_ended = words("sessions_ended", "Sessions that ended after they were ready.", "reason", REASONS)
        self.refusals = words("refusals", "Connections closed by the service before ready.", "reason", REASONS)
        # Connections at the port.
        self.connections_dropped = words("connections_dropped", "Connections that the port cut off.", "reason", DROPS)
        self.accept_failures = counter("accept_failures", "Failed attempts to accept a connection.")
        self.http_errors = counter("http_errors", "Failures inside the reader of HTTP and websockets.")
        # Unexpected failures, by part of the service.
        unexpected = words("unexpected_failures", "Unexpected exceptions, by part of the service.", "part", PARTS)
        self._failures = {part: Failures(unexpected.labels(part).inc) for part in PARTS}

        def count_http_failure() -> None:
            self.http_errors.inc()
            unexpected.labels(HTTP).inc()

        self._failures[HTTP] = Failures(count_http_failure)
        # How soon results are sent.
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
        # How far recognition is behind.
        self.lag = by_pace("lag_seconds", "Audio received and not yet acknowledged, at each answer.", _LAG_S)
        self.session_lag = by_pace("session_lag_seconds", "The greatest lag of each session.", _LAG_S)
        self.answer_seconds = histogram("answer_seconds", "From a request to the model until its answer.", _ANSWER_S)
        self.request_failures = words("request_failures", "Requests to the model that failed.", "code", FAILURES)
        # Input and output.
        self.received_seconds = counter("received_seconds", "Audio received.")
        self.messages = words("messages", "Messages to clients.", "type", MESSAGES)
        # The same by format.
        self.protocol_sessions = words("protocol_sessions", "Sessions that became ready.", "protocol", PROTOCOLS)
        self.protocol_refusals = words("protocol_refusals", "Connections closed before ready.", "protocol", PROTOCOLS)
        self.protocol_seconds = words("protocol_received_seconds", "Audio received.", "protocol", PROTOCOLS)
        self.protocol_messages = words("protocol_messages", "Messages to clients.", "protocol", PROTOCOLS)
        # Uploaded recordings.
        self.uploads = gauge("uploads", "Recordings that are being uploaded or answered.")
        self.uploads_ended = words("uploads_ended", "Uploaded recordings, by how they ended.", "reason", UPLOAD_REASONS)
        self.upload_bytes = counter("upload_bytes", "Bytes of uploaded recordings.")
        # Webhooks.
        text = "Events for webhooks, by what became of them."
        self.webhook_events = words("webhook_events", text, "result", WEBHOOK_EVENTS)
        self.webhook_events_waiting = gauge("webhook_events_waiting", "Events that wait for their webhooks.")
        self.webhook_failures = counter("webhook_failures", "Attempts to deliver an event that failed.")
        # Sessions that survived a failure or a move.
        self.recoveries = words(
            "recoveries", "Sessions that went on after a failure, by what failed.", "cause", FAILURES
        )
        self.recovery_gap = histogram(
            "recovery_gap_seconds", "From a failure until the session went on where it was.", _GAP_S
        )
        self.replayed_seconds = counter("replayed_seconds", "Audio sent again by recoveries.")
        self.moves = counter("moves", "Streams that moved to another Triton or model at a cut, without a loss.")
        self.resumes = counter("resumes", "Sessions that went on over another connection.")

    def usage_of(self, key: str) -> Usage:
        """Return what the key of this name has used, for counting on. Without a key, it is shown nowhere."""
        return self.usage.setdefault(key, Usage())

    def failures(self, part: str) -> Failures:
        """Return the object that counts and logs the failures of this part, one of PARTS."""
        return self._failures[part]

    def exposition(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self._registry)


class _Keys(Collector):
    """What each key has used. Names come only from the operator's file, but keys may come and go for years."""

    def __init__(self, usage: ByKey) -> None:
        self._usage = usage

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        shown: ByKey = {}
        for key, usage in self._usage.items():
            if key:
                shown.setdefault(key if len(shown) < MOST_KEYS else OTHER, Usage()).add(usage)
        sessions = CounterMetricFamily("streamer_key_sessions", "Sessions that became ready, by key.", labels=["key"])
        seconds = CounterMetricFamily("streamer_key_received_seconds", "Audio received, by key.", labels=["key"])
        refusals = CounterMetricFamily("streamer_key_refusals", "Refusals of a session, by key.", labels=["key"])
        for key, usage in shown.items():
            sessions.add_metric([key], usage.sessions)
            seconds.add_metric([key], usage.audio_s)
            refusals.add_metric([key], usage.refusals)
        yield from (sessions, seconds, refusals)


class _Models(Collector):
    """The models in use: one for each public name, or two while one replaces the other."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        held = GaugeMetricFamily(
            "streamer_model_sequences",
            "Sequences that sessions hold, by public name and Triton model.",
            labels=["name", "model"],
        )
        for name, models in self._metrics.held().items():
            for model, number in models.items():
                held.add_metric([name, model], number)
        yield held
        states = GaugeMetricFamily("streamer_models", "Models by whether they are loaded.", labels=["state"])
        for state, number in self._metrics.model_states().items():
            states.add_metric([state], number)
        yield states
        loaded = GaugeMetricFamily("streamer_instances", "Instances of a model that are loaded.", labels=["name"])
        wanted = GaugeMetricFamily("streamer_instances_wanted", "Instances that the load asks for.", labels=["name"])
        for name, numbers in self._metrics.instances().items():
            for family, number in zip((loaded, wanted), numbers, strict=True):
                family.add_metric([name], number)
        yield from (loaded, wanted)


class _Connections(Collector):
    """The connections of the port by state."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        numbers = GaugeMetricFamily("streamer_connections", "Connections at the port, by state.", labels=["state"])
        for state, number in self._metrics.connections().items():
            numbers.add_metric([state], number)
        yield numbers


class _Unknown(Collector):
    """What later models send, and this version ignores."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        text = "Events of models, and fields of events, that this version does not know and has ignored."
        numbers = CounterMetricFamily("streamer_unknown_event_parts", text, labels=["part"])
        unknown = self._metrics.unknown()
        for part in Unknown:
            numbers.add_metric([part.value], unknown[part])
        yield numbers


class _Worker(Collector):
    """The starts of this worker, if the service has several."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Get the present number."""
        if self._metrics.worker_starts:
            text = "Starts of worker processes; each further one replaces a worker that ended."
            yield CounterMetricFamily("streamer_worker_starts", text, self._metrics.worker_starts)


class _Bridges(Collector):
    """The other bridges, for a service with a store."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        if (bridges := self._metrics.bridges()) is not None:
            together, others, refused = bridges
            text = "Whether this bridge counts together with others: the store is there."
            yield GaugeMetricFamily("streamer_bridges_together", text, together)
            text = "Other bridges that have told what they count, and do not drain."
            yield GaugeMetricFamily("streamer_other_bridges", text, others)
            text = "Entries of the store that were ignored, because no bridge has signed them with this secret."
            yield CounterMetricFamily("streamer_store_entries_refused", text, refused)


class _LogLines(Collector):
    """The dropped lines of the log, which all services of a process share."""

    def collect(self) -> Iterable[Metric]:
        """Get the present number."""
        text = "Log lines that were dropped because they could not be written in time."
        yield CounterMetricFamily("streamer_log_lines_dropped", text, logs.dropped())


class _Descriptors(Collector):
    """The open files and sockets of the process, and their limit. Only where the system reports them."""

    def collect(self) -> Iterable[Metric]:
        """Get the present numbers."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        try:
            number = len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 one entry is the folder itself
        except FileNotFoundError:
            return
        except OSError:  # no descriptor is free to open the folder
            number = limit
        yield GaugeMetricFamily("streamer_descriptors", "Open files and sockets of the service.", number)
        yield GaugeMetricFamily("streamer_descriptors_limit", "The most files and sockets that it may open.", limit)


class _Sessions(Collector):
    """All present sessions, examined at each request for metrics. Nothing is counted up and down, so nothing drifts."""

    def __init__(self, live: set[LiveSession]) -> None:
        self._live = live

    def collect(self) -> Iterable[Metric]:
        """Examine every session once."""
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
            "streamer_sessions_by_state", "Sessions, including those not started yet.", labels=["protocol", "state"]
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
        yield GaugeMetricFamily("streamer_outgoing_messages", "Messages that were not sent to clients yet.", outgoing)
