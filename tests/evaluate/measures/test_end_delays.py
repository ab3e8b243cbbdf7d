"""The time from a flush or a stop to its final."""

from __future__ import annotations

from streamer.evaluate.measures.end_delays import EndDelay, FinalRequest, summarise_end_delays


def test_each_kind_has_its_own_line() -> None:
    """Flush and stop are summarised apart, and sessions that did not wait for a final do not count."""
    found = summarise_end_delays(
        [
            EndDelay(FinalRequest.FLUSH, 100.0),
            None,
            EndDelay(FinalRequest.STOP, 30.0),
            EndDelay(FinalRequest.FLUSH, 200.0),
        ]
    )
    assert (found["flush"].number, found["flush"].median_ms, found["flush"].longest_ms) == (2, 150.0, 200.0)
    assert 150 < found["flush"].p95_ms < 200
    assert (found["stop"].number, found["stop"].median_ms, found["stop"].p95_ms) == (1, 30.0, 30.0)


def test_nothing_to_summarise() -> None:
    """Without any delay there is no line."""
    assert summarise_end_delays([None]) == {}
