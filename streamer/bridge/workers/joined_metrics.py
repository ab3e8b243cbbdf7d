"""Joins the metrics of all workers: their sum, or each of them with the number of its worker.

Counters and histograms of workers that have ended stay in the sum, because a sum that falls looks like a service that
begins anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from streamer.bridge.telemetry.metrics import OTHER

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
    "streamer_other_bridges",
    "streamer_descriptors",
    "streamer_descriptors_limit",
)
_SMALLEST: Final = ("streamer_bridges_together",)  # if one of them is alone, not all are together
_CREATED: Final = "_created"  # the time of a counter's first value
_CUMULATIVE: Final = ("counter", "histogram", "summary")
_STARTS: Final = "streamer_worker_starts"  # each worker says how often its number was started: no past is missing
WORKER: Final = "worker"
_KEY: Final = "key"
# Names of keys that the past of ended workers has. Each worker has some, and many may end in the time of a service.
MOST_KEYS_OF_ENDED: Final = 1000
Labels = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Words:
    """What one worker process said of its metrics."""

    identity: int  # of the process
    at: float  # time.monotonic(), which all workers share
    exposition: bytes


@dataclass(frozen=True)
class Past:
    """What the sums have besides the figures of the workers that answered."""

    expositions: Sequence[bytes]  # of workers that have ended, or do not answer now
    starts: int  # of all worker processes
    ended: Collection[int] = ()  # the processes that ended since they answered; these expositions have their figures


def joined(expositions: Mapping[int, bytes], workers: int, past: Past | None, *, by_worker: bool) -> bytes:
    """Return one text for Prometheus from those of the workers that answered, by their numbers.

    `workers`: how many there should be. `past`: None if it is not known now; then the sums may be too small.
    """
    families: dict[str, Metric] = {}
    for number, exposition in sorted(expositions.items()):
        _add(families, exposition, {WORKER: str(number)} if by_worker else {})
    if not by_worker:
        if past is not None:
            for exposition in past.expositions:
                _add(families, exposition, {}, only=_outlives)
        for family in families.values():
            family.samples = _summed(family)
            if family.name == _STARTS and past is not None:
                family.samples = [each._replace(value=max(each.value, past.starts)) for each in family.samples]
    together = "Whether the worker that answers counts together with the others, and its sums have those that ended."
    registry = CollectorRegistry()
    further = (
        GaugeMetricFamily("streamer_workers", "Workers that answered.", len(expositions)),
        GaugeMetricFamily("streamer_workers_wanted", "Workers that there should be.", workers),
        GaugeMetricFamily("streamer_workers_together", together, past is not None),
    )
    registry.register(_Families([*families.values(), *further]))
    return bytes(generate_latest(registry))


def past_of(expositions: Iterable[bytes]) -> bytes:
    """Return what stays of workers that have ended, as one text: their counters and histograms, added up."""
    families: dict[str, Metric] = {}
    for exposition in expositions:
        _add(families, exposition, {}, only=_outlives)
    keys: set[str] = set()
    for family in families.values():
        for place, sample in enumerate(family.samples):
            if (key := sample.labels.get(_KEY)) is not None and key not in keys:
                if len(keys) < MOST_KEYS_OF_ENDED:
                    keys.add(key)
                else:
                    family.samples[place] = sample._replace(labels={**sample.labels, _KEY: OTHER})
        family.samples = _summed(family)
    registry = CollectorRegistry()
    registry.register(_Families(families.values()))
    return bytes(generate_latest(registry))


def _outlives(family: Metric) -> bool:
    """Return whether figures count on when their worker has ended."""
    return (family.type in _CUMULATIVE or family.name.endswith(_CREATED)) and not family.name.startswith(_STARTS)


def _add(
    families: dict[str, Metric],
    exposition: bytes,
    labels: Mapping[str, str],
    only: Callable[[Metric], bool] = lambda _: True,
) -> None:
    for family in filter(only, text_string_to_metric_families(exposition.decode())):
        known = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        for sample in family.samples:
            known.samples.append(Sample(sample.name, {**sample.labels, **labels}, sample.value))


def _summed(family: Metric) -> list[Sample]:
    values: dict[Labels, float] = {}
    join: Callable[[float, float], float] = operator.add
    if family.name in _LARGEST:
        join = max
    elif family.name in _SMALLEST or family.name.endswith(_CREATED):
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
