"""The pace at which `flush` messages of one client are read."""

from __future__ import annotations

import pytest

from streamer.bridge.flush_pace import FLUSHES_PER_S, MOST_FLUSHES, FlushPace


def test_the_pace_of_flushes() -> None:
    """Some messages may come at once; each further one waits; after a pause as many may come again."""
    pace = FlushPace()
    assert [pace.wait_s(100.0) for _ in range(MOST_FLUSHES)] == pytest.approx([0.0] * MOST_FLUSHES)
    assert pace.wait_s(100.0) == pytest.approx(1 / FLUSHES_PER_S)
    assert pace.wait_s(100.0 + 1 / FLUSHES_PER_S) == pytest.approx(1 / FLUSHES_PER_S)
    assert [pace.wait_s(200.0) for _ in range(MOST_FLUSHES)] == pytest.approx([0.0] * MOST_FLUSHES)
