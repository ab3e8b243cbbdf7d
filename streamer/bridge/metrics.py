"""What the service tells Prometheus. Every metric is defined here; several services of one process do not clash."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

# A request answers within some tens of milliseconds when nothing is behind; the limit for an answer is the end.
_ANSWER_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5, 10, 30)


class Metrics:
    """The metrics of one service, in a registry of its own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.ready = Gauge("streamer_ready", "1 while sessions can be served.", registry=registry)
        self.sessions_limit = Gauge("streamer_sessions_limit", "Most sequences at a time.", registry=registry)
        self.sessions = Gauge("streamer_sessions", "Sessions that hold a sequence.", registry=registry)
        self.sequences = Gauge("streamer_sequences", "What they hold: one, or one a channel.", registry=registry)
        self.sessions_opened = Counter("streamer_sessions_opened", "Sessions that got ready.", registry=registry)
        self.sessions_ended = Counter(
            "streamer_sessions_ended", "Sessions that ended after they were ready.", ["reason"], registry=registry
        )
        self.refusals = Counter(
            "streamer_refusals", "Connections closed by the service before ready.", ["reason"], registry=registry
        )
        self.received_seconds = Counter("streamer_received_seconds", "Audio received.", registry=registry)
        self.messages = Counter("streamer_messages", "Messages to clients.", ["type"], registry=registry)
        self.answer_seconds = Histogram(
            "streamer_answer_seconds",
            "From a request to the model until its answer.",
            registry=registry,
            buckets=_ANSWER_BUCKETS,
        )
        self.request_failures = Counter(
            "streamer_request_failures", "Requests that the model did not answer.", ["code"], registry=registry
        )

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)
