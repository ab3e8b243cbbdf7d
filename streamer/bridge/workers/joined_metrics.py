"""Joins the metrics of all workers: their sum, or each of them with the number of its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

# What all workers say of the same thing, or of which the worst one counts. Everything else is added up.
_LARGEST: Final = (
    "streamer_ready",
    "streamer_sessions_limit",
    "streamer_recognisers",
    "streamer_recognisers_ready",
    "streamer_readers_ready",
    "streamer_models",
    "streamer_instances",
    "streamer_instances_wanted",
    "streamer_lag_max_seconds",
    "streamer_descriptors",
    "streamer_descriptors_limit",
)
_CREATED: Final = "_created"  # the time of a counter's first value
WORKER: Final = "worker"
Labels = tuple[str, tuple[tuple[str, str], ...]]


def joined(expositions: Mapping[int, bytes], workers: int, *, by_worker: bool) -> bytes:
    """Return one text for Prometheus from those of the workers that answered, by their numbers.

    `workers`: how many there should be.
    """
    families: dict[str, Metric] = {}
    for number, exposition in sorted(expositions.items()):
        for family in text_string_to_metric_families(exposition.decode()):
            known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                labels = {**sample.labels, WORKER: str(number)} if by_worker else sample.labels
                known.samples.append(Sample(sample.name, labels, sample.value))
    if not by_worker:
        for family in families.values():
            family.samples = _summed(family)
    running = GaugeMetricFamily("streamer_workers", "Workers that answered.", len(expositions))
    wanted = GaugeMetricFamily("streamer_workers_wanted", "Workers that there should be.", workers)
    registry = CollectorRegistry()
    registry.register(_Families([*families.values(), running, wanted]))
    return bytes(generate_latest(registry))


def _summed(family: Metric) -> list[Sample]:
    values: dict[Labels, float] = {}
    join: Callable[[float, float], float] = float.__add__
    if family.name in _LARGEST:
        join = max
    elif family.name.endswith(_CREATED):
        join = min
    for sample in family.samples:
        labels = (sample.name, tuple(sample.labels.items()))
        values[labels] = join(values[labels], sample.value) if labels in values else sample.value
    return [Sample(name, dict(labels), value) for (name, labels), value in values.items()]


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families
