"""The limit for an answer."""

from __future__ import annotations

from contextlib import ExitStack

from streamer.bridge.upstreams.patience import BUSIEST_S, LONGEST_S, SHORTEST_S, SLOWER, Patience

STEP_S = 0.32


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


def answered(patience: Patience, streams: int, seconds: float, now: float) -> float:
    """Let this number of streams ask for a step at once, and get their answers later. Return the time of these."""
    with ExitStack() as under_way:
        for _ in range(streams):
            under_way.enter_context(patience.work(STEP_S, now))
        for _ in range(streams):
            patience.note(seconds, now + seconds, STEP_S)
    return now + seconds


def test_much_work_may_take_long() -> None:
    """The limit grows with the audio under way, at the pace of the recent answers, and shrinks when it is answered."""
    patience = Patience()
    now = answered(patience, 1, 0.2, 100.0)
    assert patience.limit_s == SHORTEST_S
    with ExitStack() as under_way:
        for _ in range(32):
            under_way.enter_context(patience.work(STEP_S, now))
        assert abs(patience.limit_s - SLOWER * 32 * 0.2) < 0.01
        under_way.enter_context(patience.work(1000, now))
        assert patience.limit_s == BUSIEST_S
    assert patience.limit_s == SHORTEST_S


def test_streams_together_have_the_pace_of_all() -> None:
    """The time of a batch counts once for all its streams, and time without audio under way does not count."""
    patience = Patience()
    now = answered(patience, 32, 1.6, 100.0)
    now = answered(patience, 32, 1.6, now + 20)
    with patience.work(32 * STEP_S, now):
        assert abs(patience.work_s - SLOWER * 1.6) < 0.01


def test_the_limit_does_not_grow_while_nothing_is_answered() -> None:
    """The limit does not grow while there are no answers, so a recogniser that hangs is noticed."""
    patience = Patience()
    now = answered(patience, 1, 0.2, 100.0)
    with patience.work(STEP_S, now):
        assert patience.limit_s == SHORTEST_S
    with patience.work(STEP_S, now + SHORTEST_S):
        assert patience.limit_s == SHORTEST_S
    answered(patience, 1, 0.2, now + 20)
    with patience.work(10 * STEP_S, now + 21):
        assert abs(patience.work_s - SLOWER * 10 * 0.2) < 0.01
