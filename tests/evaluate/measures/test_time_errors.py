"""Time errors of words."""

from __future__ import annotations

from streamer.evaluate.measures.time_errors import ErrorSpread, TimeOffset, time_errors


def test_sizes_and_signs() -> None:
    """Medians and 90th percentiles are of absolute errors; a constant shift shows in the signed median."""
    found = time_errors([TimeOffset(float(number), -50.0) for number in range(-50, 51)])
    assert found is not None
    assert found.words == 101
    assert found.start == ErrorSpread(median=25.0, p90=45.0, signed=0.0)
    assert found.end == ErrorSpread(median=50.0, p90=50.0, signed=-50.0)


def test_of_nothing_there_are_none() -> None:
    """Without words there are no time errors."""
    assert time_errors([]) is None
