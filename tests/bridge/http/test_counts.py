"""The number of connections by state."""

from __future__ import annotations

import pytest

from streamer.bridge.http import counts
from streamer.bridge.http.counts import ANSWERING, IDLE, OPENING, ConnectionCounts


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection counts in its present state until it ends; if too many are opening, a new one is refused."""
    monkeypatch.setattr(counts, "MOST_OPENING", 2)
    numbers = ConnectionCounts()
    first, second = numbers.enter(), numbers.enter()
    assert first is not None
    assert second is not None
    assert numbers.enter() is None
    first.move(ANSWERING)
    assert numbers.enter() is not None
    assert numbers.numbers == {"opening": 2, "idle": 0, "answering": 1, "websocket": 0}
    for _ in range(2):
        first.leave()
        first.move(OPENING)
    assert numbers.numbers == {"opening": 2, "idle": 0, "answering": 0, "websocket": 0}
    assert first.state is None


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections and requests that are being answered are bounded as well."""
    monkeypatch.setattr(counts, "MOST_IDLE", 1)
    monkeypatch.setattr(counts, "MOST_ANSWERING", 1)
    numbers = ConnectionCounts()
    place = numbers.enter()
    assert place is not None
    assert numbers.room_for_idle
    assert numbers.room_for_answering
    place.move(IDLE)
    assert not numbers.room_for_idle
    place.move(ANSWERING)
    assert not numbers.room_for_answering
