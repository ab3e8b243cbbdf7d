"""The limit for an answer."""

from __future__ import annotations

from streamer.bridge.upstreams.patience import LONGEST_S, SHORTEST_S, Patience


def test_patience() -> None:
    """The limit is short after quick answers and longer after slow ones, and old answers are forgotten."""
    patience = Patience()
    assert patience.limit_s == LONGEST_S
    patience.note(0.1, 100.0)
    assert patience.limit_s == SHORTEST_S
    patience.note(3.0, 101.0)
    patience.note(0.1, 140.0)
    assert patience.limit_s == 15.0
    patience.note(0.1, 180.0)
    assert patience.limit_s == SHORTEST_S
    patience.note(20.0, 181.0)
    assert patience.limit_s == LONGEST_S
