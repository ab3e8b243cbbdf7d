"""The metrics of several workers as one text: sums, the largest, and each with its worker."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.telemetry.usage import Usage
from streamer.bridge.workers import joined_metrics
from streamer.bridge.workers.joined_metrics import Past, joined, past_of


def values(text: bytes) -> dict[str, float]:
    """All samples of a text."""
    return {
        f"{sample.name} {dict(sorted(sample.labels.items()))}" if sample.labels else sample.name: sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def two_workers() -> dict[int, bytes]:
    """The texts of two workers with different figures."""
    first, second = Metrics(), Metrics()
    for metrics, sessions in ((first, 3), (second, 4)):
        metrics.worker_starts = 1
        metrics.sessions.set(sessions)
        metrics.ready.set(sessions == 4)
        metrics.sessions_limit.set(20)
        metrics.sessions_opened.inc(sessions)
        metrics.partial_latency.labels("real_time").observe(sessions / 10)
        metrics.usage["anna"] = Usage(sessions, 1.5, 0)
        metrics.refusals.labels("full").inc()
    second.refusals.labels("not_ready").inc()
    return {1: first.exposition(), 2: second.exposition()}


def test_sums() -> None:
    """Figures are added up, and so are histograms; what all workers say of the same thing is not."""
    texts = two_workers()
    together = values(joined(texts, 3, Past([], 2), by_worker=False))
    assert together["streamer_sessions"] == together["streamer_sessions_opened_total"] == 7
    assert together["streamer_sessions_limit"] == 20
    assert together["streamer_ready"] == 1
    assert together["streamer_key_sessions_total {'key': 'anna'}"] == 7
    assert together["streamer_refusals_total {'reason': 'full'}"] == 2
    assert together["streamer_refusals_total {'reason': 'not_ready'}"] == 1
    assert together["streamer_partial_latency_seconds_count {'pace': 'real_time'}"] == 2
    assert together["streamer_partial_latency_seconds_bucket {'le': '0.3', 'pace': 'real_time'}"] == 1
    assert (together["streamer_workers"], together["streamer_workers_wanted"]) == (2, 3)
    assert together["streamer_workers_together"] == 1
    assert together["streamer_worker_starts_total"] == 2
    alone = values(texts[1])
    assert set(alone) < set(together)  # nothing is lost, and nothing has another name
    created = "streamer_sessions_opened_created"
    assert together[created] == min(values(text)[created] for text in texts.values())


def test_each_worker() -> None:
    """Each figure has the number of its worker."""
    each = values(joined(two_workers(), 2, Past([two_workers()[1]], 3), by_worker=True))
    assert each["streamer_sessions {'worker': '1'}"] == 3
    assert each["streamer_sessions {'worker': '2'}"] == 4
    assert each["streamer_ready {'worker': '1'}"] == 0


def test_workers_that_have_ended() -> None:
    """Their counters and histograms stay in the sum, and their gauges do not: what they did is done."""
    texts = two_workers()
    before = values(joined(texts, 2, Past([], 2), by_worker=False))
    past = past_of([past_of([]), texts[2]])
    after = values(joined({1: texts[1]}, 2, Past([past], 3), by_worker=False))
    assert (after["streamer_sessions"], after["streamer_ready"], after["streamer_workers"]) == (3, 0, 1)
    assert after["streamer_worker_starts_total"] == 3
    lasting = ("_total", "_count", "_sum", "_created")
    cumulative = {name for name in before if name.partition(" ")[0].endswith((*lasting, "_bucket"))}
    assert len(cumulative) > 100
    cumulative.discard("streamer_worker_starts_total")
    assert {name: after[name] for name in cumulative} == {name: before[name] for name in cumulative}


def test_a_past_that_is_not_known() -> None:
    """Then the sums have the workers that answered, and a figure says so."""
    together = values(joined(two_workers(), 2, None, by_worker=False))
    assert together["streamer_workers_together"] == 0
    assert together["streamer_sessions_opened_total"] == 7


def test_the_past_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that many ended workers have used get only so many series; the others count together."""
    monkeypatch.setattr(joined_metrics, "MOST_KEYS_OF_ENDED", 3)
    past = b""
    for turn in range(5):
        metrics = Metrics()
        for name in (f"key {turn}", "anna"):
            metrics.usage[name] = Usage(2, 1.5, 0)
        past = past_of([past, metrics.exposition()])
    sessions = {name: value for name, value in values(past).items() if name.startswith("streamer_key_sessions_total")}
    assert len(sessions) == 4
    assert sum(sessions.values()) == 20
    assert sessions["streamer_key_sessions_total {'key': 'anna'}"] == 10
    assert sessions["streamer_key_sessions_total {'key': 'other'}"] == 6
