"""The rule for the number of instances: when it grows, when it shrinks, and that it does not change back and forth."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from streamer.base.limits import InstanceBounds
from streamer.bridge.upstreams.instance_count import (
    LOWER_AFTER_S,
    PAUSE_S,
    RAISE_AFTER_S,
    RETRY_S,
    STRAIN_S,
    CountRule,
    Load,
    Reason,
    Wish,
)

SLOTS = 40  # of each instance


class Machine:
    """Follows the wishes of a rule, second by second."""

    def __init__(self, fewest: int = 1, most: int = 4) -> None:
        self.rule = CountRule(InstanceBounds(fewest, most))
        self.instances = fewest
        self.now = 0.0
        self.changes: list[Wish] = []

    def run(self, seconds: float, in_use: int, lag_s: float = 0.3) -> list[Wish]:
        """Return the changes within this time."""
        before = len(self.changes)
        for _ in range(int(seconds)):
            self.now += 1.0
            wish = self.rule.wish(self.instances, Load(in_use, self.instances * SLOTS, lag_s), self.now)
            if wish is not None:
                self.changes.append(wish)
                self.instances = wish.instances
                self.rule.note_change(self.now)
        return self.changes[before:]


def test_more_slots_are_needed() -> None:
    """An instance is added when three quarters of the slots have been in use for a few seconds, but not before."""
    machine = Machine()
    assert machine.run(100, 29) == []
    assert machine.run(RAISE_AFTER_S, 30) == []
    assert machine.run(1, 30) == [Wish(2, Reason.SLOTS)]
    assert machine.run(100, 59) == []


def test_a_short_peak_changes_nothing() -> None:
    """A short peak changes nothing: the time begins anew whenever the load was low."""
    machine = Machine()
    for _ in range(20):
        assert machine.run(RAISE_AFTER_S, 40) == []
        assert machine.run(1, 20) == []


def test_sessions_are_behind() -> None:
    """If sessions are behind, an instance is added although slots are free."""
    machine = Machine()
    assert machine.run(RAISE_AFTER_S + 1, 5, lag_s=1.5) == [Wish(2, Reason.LAG)]


def test_one_at_a_time() -> None:
    """After each change there is a pause, and each needs reasons of its own; there are never more than allowed."""
    machine = Machine()
    changes = machine.run(200, 200)
    assert [wish.instances for wish in changes] == [2, 3, 4]
    machine = Machine()
    machine.run(RAISE_AFTER_S + 1, 200)
    assert machine.run(PAUSE_S - 1, 200) == []


def test_an_instance_goes() -> None:
    """One goes after a long quiet time, if the others would be half empty; one by one, down to the fewest."""
    machine = Machine(fewest=2)
    machine.run(60, 80)
    assert machine.instances == 3
    assert machine.run(2 * LOWER_AFTER_S, 41) == []
    machine.run(LOWER_AFTER_S - 1, 40)
    machine.run(1, 50)
    assert machine.run(LOWER_AFTER_S, 40) == []
    assert machine.run(1, 40) == [Wish(2, Reason.QUIET)]
    assert machine.run(1000, 0) == []


@pytest.mark.parametrize("in_use", range(0, 161, 5))
def test_a_steady_load_has_one_number(in_use: int) -> None:
    """From few or from many instances, a steady load leads to a number that stays."""
    for first in ([], [160]):
        machine = Machine()
        for load in first:
            machine.run(200, load)
        machine.run(1000, in_use)
        assert machine.run(1000, in_use) == []


def test_a_number_that_was_too_small_is_not_chosen_again() -> None:
    """After a lag, an instance goes only when there are clearly fewer sessions; after a while, the lag is forgotten."""
    machine = Machine()
    machine.run(RAISE_AFTER_S + 1, 16, lag_s=2.0)
    assert machine.run(STRAIN_S / 2, 16) == []
    assert machine.run(LOWER_AFTER_S + 1, 12) == [Wish(1, Reason.QUIET)]
    machine.run(RAISE_AFTER_S + PAUSE_S, 16, lag_s=2.0)
    assert machine.instances == 2
    assert machine.run(STRAIN_S + LOWER_AFTER_S, 16) == [Wish(1, Reason.QUIET)]


def test_a_failure() -> None:
    """After a change that failed, none is wanted for a while, whatever the load is."""

    def wishes(seconds: Iterable[int]) -> list[Wish]:
        found = (rule.wish(1, Load(40, 40, 0.0), second) for second in seconds)
        return [wish for wish in found if wish is not None]

    rule = CountRule(InstanceBounds(1, 2))
    assert wishes(range(10))[0] == Wish(2, Reason.SLOTS)
    rule.note_failure(10)
    assert rule.waits(11)
    assert wishes(range(11, 10 + int(RETRY_S))) == []
    assert not rule.waits(10 + RETRY_S)
    assert wishes([10 + int(RETRY_S)]) == [Wish(2, Reason.SLOTS)]
