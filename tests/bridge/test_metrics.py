"""The metrics of a service."""

from __future__ import annotations

from streamer.bridge.metrics import Metrics


def test_services_do_not_clash() -> None:
    """Two services in one process count apart."""
    one, other = Metrics(), Metrics()
    one.sessions_ended.labels("done").inc()
    assert b'streamer_sessions_ended_total{reason="done"} 1.0' in one.exposition()
    assert b'reason="done"' not in other.exposition()


def test_exposition() -> None:
    """Every metric is shown from the start, with its help."""
    text = Metrics().exposition().decode()
    for name in ("ready", "sessions", "sessions_limit", "received_seconds_total", "answer_seconds_bucket"):
        assert f"\nstreamer_{name}" in text
    assert "# HELP streamer_refusals_total" in text
