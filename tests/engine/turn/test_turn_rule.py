"""How long a pause must be to end a turn."""

from __future__ import annotations

import itertools

import pytest

from streamer.engine.turn.turn_rule import FLUENT_MS, LOOK_MS, TurnRule
from streamer.limits import EAGERNESSES

OVER = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)


@pytest.mark.parametrize("eagerness", EAGERNESSES)
def test_the_likelier_the_end_the_shorter_the_pause(eagerness: str) -> None:
    """The pause never grows with the probability, is at least what is judged, and at most the longest one."""
    pauses = [TurnRule(eagerness, 1500).pause_ms(over) for over in OVER]
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[0] == 1500
    assert LOOK_MS <= pauses[-1] < 1000


def test_eager_rules_wait_less() -> None:
    """With the same words, `high` never waits longer than `medium`, nor `medium` longer than `low`."""
    for over in OVER:
        low, medium, high = (TurnRule(eagerness, 10_000).pause_ms(over) for eagerness in EAGERNESSES)
        assert high <= medium <= low
    assert TurnRule("high").pause_ms(0.5) < TurnRule("medium").pause_ms(0.5) < TurnRule("low").pause_ms(0.5)


def test_who_has_just_paused_may_pause_for_longer() -> None:
    """The shorter the time since the pause before, the longer the pause; without one, only the words count."""
    for rule, over in itertools.product(map(TurnRule, EAGERNESSES), OVER):
        pauses = [rule.pause_ms(over, spoken_ms) for spoken_ms in (0, 300, 1000, FLUENT_MS, 9000, None)]
        assert pauses == sorted(pauses, reverse=True)
        assert len(set(pauses[3:])) == 1
        assert pauses[0] <= rule.longest_pause_ms
    assert TurnRule().pause_ms(0.7, 300) > TurnRule().pause_ms(0.7)


def test_the_longest_pause_bounds_every_rule() -> None:
    """No pause is longer, even if the words say that more will come."""
    assert {TurnRule(eagerness, 400).pause_ms(0.0) for eagerness in EAGERNESSES} == {400}
