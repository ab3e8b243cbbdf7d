"""How many instances, slots and sessions fit in a memory."""

from __future__ import annotations

import pytest

from streamer.commands.capacity.plan import (
    Limit,
    Memory,
    Part,
    Scope,
    Size,
    TooSmall,
    best_size,
    fewer_instances,
    largest,
    plan,
)

PARTS = (
    Part("service", Scope.SERVICE, 100),
    Part("instance", Scope.INSTANCE, 50, gpu=500),
    Part("slot", Scope.SLOT, 2, gpu=10),
    Part("stream", Scope.STREAM, 3),
    Part("hotwords", Scope.STREAM, 4, most=2),
)


def test_what_a_service_needs() -> None:
    """Each part counts as often as it is needed; some have a largest number in each instance."""
    assert Size(2, 5, 8).needed(PARTS) == Memory(100 + 2 * 50 + 10 * 2 + 8 * 3 + 4 * 4, 2 * 500 + 10 * 10)
    assert Size(2, 5, 3).needed(PARTS).main == 100 + 2 * 50 + 10 * 2 + 3 * 3 + 3 * 4


@pytest.mark.parametrize("instances", [1, 2, 3])
@pytest.mark.parametrize("memory", [Memory(500), Memory(3000), Memory(100_000, 4000)])
def test_the_largest_service(memory: Memory, instances: int) -> None:
    """The largest service fits in four fifths of the memory, and one more slot in each instance would not."""
    size = largest(PARTS, memory, instances)
    more = Size(instances, size.slots + 1, instances * size.slots)
    assert size.streams == instances * (size.slots - 1)
    assert memory.times(0.8).holds(size.needed(PARTS))
    assert not memory.times(0.8).holds(more.needed(PARTS))


@pytest.mark.parametrize("memory", [Memory(0), Memory(200), Memory(100_000, 600)])
def test_no_room(memory: Memory) -> None:
    """If not even one stream fits, the error says how much memory would be enough."""
    with pytest.raises(TooSmall) as raised:
        plan(PARTS, memory, 1, None)
    assert not memory.holds(raised.value.needed)
    enough = Memory(raised.value.needed.main + 1, None if memory.gpu is None else (raised.value.needed.gpu or 0) + 1)
    assert plan(PARTS, enough, 1, None).fits == Size(1, 2, 1)


def test_fewer_instances() -> None:
    """If the memory has no room for all instances, there are as many as fit."""
    assert fewer_instances(PARTS, Memory(100_000), 8) == 8
    assert fewer_instances(PARTS, Memory(400), 8) == 3
    assert fewer_instances(PARTS, Memory(215), 8) == 1
    with pytest.raises(TooSmall):
        fewer_instances(PARTS, Memory(100), 8)


def test_the_processors_are_the_limit() -> None:
    """A plan has as many sessions as the processors carry, and the usual slots."""
    made = plan(PARTS, Memory(100_000), 2, 40)
    assert (made.recommended, made.limit) == (Size(2, 64, 40), Limit.PROCESSORS)


def test_many_sessions_get_enough_slots() -> None:
    """Each instance has a slot for each of its sessions and one for the probe."""
    assert plan(PARTS, Memory(100_000), 2, 401).recommended == Size(2, 202, 401)


def test_each_worker_has_a_probe() -> None:
    """With several workers, there is a slot for the probe of each in each instance, and room for one stream beside."""
    assert plan(PARTS, Memory(100_000), 2, 401, 3).recommended == Size(2, 204, 401, 3)
    assert plan(PARTS, Memory(100_000), 2, None, 3).recommended == Size(2, 64, 122, 3)
    assert largest(PARTS, Memory(500), 1, 4).streams == largest(PARTS, Memory(500), 1, 4).slots - 4
    with pytest.raises(TooSmall) as raised:
        largest(PARTS, Memory(200), 1, 4)
    assert raised.value.needed.main == pytest.approx((100 + 50 + 5 * 2 + 3 + 4) / 0.8, abs=1)


def test_the_memory_is_the_limit() -> None:
    """If the memory is the limit, a plan has as many sessions and slots as fit."""
    made = plan(PARTS, Memory(500), 2, 4000)
    assert made.limit is Limit.MEMORY
    assert made.recommended == made.fits
    assert made.recommended.slots < 64


def test_unknown_processors() -> None:
    """Without a measurement, a plan has the usual slots on processors, and more on a GPU."""
    made = plan(PARTS, Memory(100_000), 2, None)
    assert (made.recommended, made.limit, made.carried) == (Size(2, 64, 126), None, None)
    assert plan(PARTS, Memory(100_000, 100_000), 1, None).recommended == Size(1, 256, 255)


def test_the_best_size() -> None:
    """Of all numbers of instances, the one with the most streams; of equal ones, the one with more instances."""
    assert best_size(PARTS, Memory(100_000), 4, 64) == Size(4, 64, 252)
    # 512 may be used: one instance leaves 362 for 71 slots, two 312 for 31 each, and three 262 for 17 each.
    assert best_size(PARTS, Memory(640), 4, 64) == Size(1, 64, 63)
    assert best_size(PARTS, Memory(640), 4, 16) == Size(3, 16, 45)
    with pytest.raises(TooSmall):
        best_size(PARTS, Memory(100), 4, 64)
