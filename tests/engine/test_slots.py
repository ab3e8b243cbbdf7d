"""Slots: leases and generations."""

from __future__ import annotations

import pytest

from streamer.engine.slots import Slots, SlotsFull


def test_slots_run_out() -> None:
    """There are as many leases as slots, each with its own slot; then comes SlotsFull."""
    slots = Slots(3)
    leases = [slots.acquire() for _ in range(3)]
    assert {lease.slot for lease in leases} == {0, 1, 2}
    with pytest.raises(SlotsFull, match="all 3 slots"):
        slots.acquire()
    assert slots.live == 3


def test_the_first_free_slot_is_handed_out() -> None:
    """The first free slot is leased, in whatever order streams ended, so that slots in use lie side by side."""
    slots = Slots(5)
    leases = [slots.acquire() for _ in range(5)]
    assert [lease.slot for lease in leases] == [0, 1, 2, 3, 4]
    for slot in (1, 3, 0):
        slots.release(leases[slot])
    assert [slots.acquire().slot for _ in range(3)] == [0, 1, 3]


def test_an_old_lease_is_never_valid_again() -> None:
    """A released lease stays invalid when the slot has a new holder, and cannot release that one."""
    slots = Slots(1)
    old = slots.acquire()
    slots.release(old)
    assert not slots.valid(old)
    new = slots.acquire()
    assert new.slot == old.slot
    slots.release(old)
    assert slots.valid(new)
    assert not slots.valid(old)
    assert slots.live == 1


def test_a_second_release_changes_nothing() -> None:
    """A slot that is released twice is handed out once."""
    slots = Slots(2)
    lease = slots.acquire()
    slots.release(lease)
    slots.release(lease)
    assert slots.live == 0
    slots.acquire()
    slots.acquire()
    with pytest.raises(SlotsFull):
        slots.acquire()


def test_no_slots_is_an_error() -> None:
    """A count below one is refused."""
    with pytest.raises(ValueError, match="at least one slot"):
        Slots(0)
