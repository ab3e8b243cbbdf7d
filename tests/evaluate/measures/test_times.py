"""Errors of where words lie."""

from __future__ import annotations

from streamer.evaluate.measures.times import Offset, Spread, time_errors


def test_sizes_and_signs() -> None:
    """Medians and 90th percentiles are of the sizes; a constant shift shows in the signed median."""
    found = time_errors([Offset(float(number), -50.0) for number in range(-50, 51)])
    assert found is not None
    assert found.words == 101
    assert found.start == Spread(median=25.0, p90=45.0, signed=0.0)
    assert found.end == Spread(median=50.0, p90=50.0, signed=-50.0)


def test_of_nothing_there_are_none() -> None:
    """No word was placed."""
    assert time_errors([]) is None
