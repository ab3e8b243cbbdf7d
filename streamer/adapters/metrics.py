"""What an instance reports at Triton's /metrics: the slots that are held, and the batches that it computed."""

from __future__ import annotations

from typing import Any

import triton_python_backend_utils as pb_utils

from streamer.adapters.instance import Instance


class InstanceMetrics:
    """What this instance reports at Triton's /metrics."""

    def __init__(self, instance: Instance) -> None:
        self._labels = {"model": instance.model, "version": instance.version, "instance": instance.name}
        gauge, counter = pb_utils.MetricFamily.GAUGE, pb_utils.MetricFamily.COUNTER
        self._families: list[Any] = []
        self._slots = self._metric("streamer_slots", "Slots of the instance", gauge)
        self._live = self._metric("streamer_slots_live", "Slots held by a live stream", gauge)
        self._preparing = self._metric(
            "streamer_streams_preparing", "Live streams whose hotwords are being prepared", gauge
        )
        self._expired = self._metric(
            "streamer_streams_expired_total", "Streams dropped because they got no audio", counter
        )
        self._batches = self._metric("streamer_batches_total", "Batches computed", counter)
        self._requests = self._metric("streamer_batched_requests_total", "Requests in these batches", counter)
        self._seconds = self._metric("streamer_audio_seconds_total", "Seconds of audio received", counter)
        self._slots.set(instance.slots)
        self._told_expired = 0

    def streams(self, live: int, expired: int, preparing: int = 0) -> None:
        """Report how many slots are held now, and how many streams were dropped so far."""
        self._live.set(live)
        self._preparing.set(preparing)
        self._expired.increment(expired - self._told_expired)
        self._told_expired = expired

    def batch(self, requests: int, seconds: float = 0.0) -> None:
        """Count a batch of this many requests with this much audio."""
        self._batches.increment(1)
        self._requests.increment(requests)
        self._seconds.increment(seconds)

    def _metric(self, name: str, description: str, kind: Any) -> Any:
        family = pb_utils.MetricFamily(name=name, description=description, kind=kind)
        self._families.append(family)  # a family that is garbage-collected takes its metrics with it
        return family.Metric(labels=self._labels)
