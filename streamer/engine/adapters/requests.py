"""Reads the inputs of Triton's requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import triton_python_backend_utils as pb_utils

from streamer.base.codes import FailureCode
from streamer.engine.adapters.instance import Instance
from streamer.engine.stream_events import StreamError

START, END = 1, 2  # the flags of a request


def array(request: Any, name: str, *sizes: int) -> Any:
    """Return the array of an input without the axis of the batch. `sizes` are the sizes of its last axes."""
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1, *sizes)


def text(request: Any, name: str) -> str:
    """Return the text of an input with one string; "" if the request does not have the input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return "" if tensor is None else tensor.as_numpy().reshape(-1)[0].decode()


def options_of(request: Any) -> dict[str, Any]:
    """Return the content of the input OPTIONS. StreamError if it is not a JSON object."""
    content = text(request, "OPTIONS")
    if not content:
        return {}
    try:
        options = json.loads(content)
    except ValueError as error:
        raise StreamError(FailureCode.BAD_OPTIONS, f"OPTIONS is not JSON: {error}") from None
    if not isinstance(options, dict):
        raise StreamError(FailureCode.BAD_OPTIONS, "OPTIONS must be a JSON object")
    return options


def texts(request: Any, name: str) -> list[str]:
    """Return the texts of an input with any number of strings; none if the request does not have the input."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return [] if tensor is None else [string.decode() for string in tensor.as_numpy().reshape(-1)]


# The metrics that an instance reports at Triton's /metrics: its slots in use, and the batches that it has computed.

SENT_AT = "sent_at_us"  # the parameter of a request with the time when its client sent it
# A request waits for the batch that is being computed. On a machine with too many sessions it waits for seconds.
WAITS_S = (0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5, 10, 30)
BATCH_SIZES = (1, 2, 4, 8, 16, 24, 32, 64, 128)


class BatchMetrics:
    """The metrics of an instance of any model: the requests in work, and the sizes and waiting times of its batches."""

    def __init__(self, instance: Instance) -> None:
        self._labels = {"model": instance.model, "version": instance.version, "instance": instance.name}
        self._families: list[Any] = []
        gauge, counter = pb_utils.MetricFamily.GAUGE, pb_utils.MetricFamily.COUNTER
        self._in_flight = self._metric("streamer_requests_in_flight", "Requests that are being computed or held", gauge)
        self._batches = self._metric("streamer_batches_total", "Batches computed", counter)
        self._requests = self._metric("streamer_batched_requests_total", "Requests in these batches", counter)
        self._sizes = self._histogram("streamer_batch_size", "Requests in a batch", BATCH_SIZES)
        self._waits = self._histogram("streamer_batch_wait_seconds", "Age of the oldest request of a batch", WAITS_S)
        self._values: dict[int, float] = {}  # the last value of each gauge, by its id

    @contextmanager
    def computing(self, requests: Sequence[Any]) -> Iterator[None]:
        """Report a batch that is computed within this context."""
        self.in_flight(len(requests))
        self.begin(requests)
        try:
            yield
        finally:
            self.in_flight(0)
            self.batch(len(requests))

    def in_flight(self, requests: int) -> None:
        """Report how many requests of the instance have no answer yet."""
        self._set(self._in_flight, requests)

    def begin(self, requests: Sequence[Any]) -> None:
        """Report how long the oldest of these requests has waited. Only one number, because each call takes a while."""
        if sent := [at for request in requests if (at := _sent_at(request)) is not None]:
            self._waits.observe(max(0.0, time.time() - min(sent)))  # clocks of different machines may differ

    def batch(self, requests: int) -> None:
        """Count a batch of this many requests."""
        self._batches.increment(1)
        self._requests.increment(requests)
        self._sizes.observe(requests)

    def _metric(self, name: str, description: str, kind: Any, **more: Any) -> Any:
        family = pb_utils.MetricFamily(name=name, description=description, kind=kind)
        self._families.append(family)  # a family that is garbage-collected takes its metrics with it
        return family.Metric(labels=self._labels, **more)

    def _histogram(self, name: str, description: str, buckets: Sequence[float]) -> Any:
        return self._metric(name, description, pb_utils.MetricFamily.HISTOGRAM, buckets=list(buckets))

    def _set(self, gauge: Any, value: float) -> None:
        """Set a gauge if its value changes, because each call goes to another process and takes a while."""
        if self._values.get(id(gauge)) != value:
            self._values[id(gauge)] = value
            gauge.set(value)


class InstanceMetrics(BatchMetrics):
    """The metrics of an instance with slots."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        gauge, counter = pb_utils.MetricFamily.GAUGE, pb_utils.MetricFamily.COUNTER
        self._slots = self._metric("streamer_slots", "Slots of the instance", gauge)
        self._live = self._metric("streamer_slots_live", "Slots held by a live stream", gauge)
        self._preparing = self._metric(
            "streamer_streams_preparing", "Live streams whose hotwords are being prepared", gauge
        )
        self._expired = self._metric(
            "streamer_streams_expired_total", "Streams dropped because they got no audio", counter
        )
        self._seconds = self._metric("streamer_audio_seconds_total", "Seconds of audio received", counter)
        self._slots.set(instance.slots)
        self._expired_so_far = 0

    def streams(self, live: int, expired: int, preparing: int = 0) -> None:
        """Report how many slots are in use now, and how many streams were dropped so far."""
        self._set(self._live, live)
        self._set(self._preparing, preparing)
        if expired > self._expired_so_far:
            self._expired.increment(expired - self._expired_so_far)
            self._expired_so_far = expired

    def audio(self, seconds: float) -> None:
        """Count seconds of audio that were received."""
        self._seconds.increment(seconds)


def _sent_at(request: Any) -> float | None:
    """Return the time when the client sent this request, in seconds; None if the request does not have it."""
    try:
        sent = json.loads(request.parameters() or "{}").get(SENT_AT)
    except ValueError:
        return None
    return sent / 1e6 if isinstance(sent, int) else None
