"""Computes how many instances, slots and sessions fit in a memory, from the sizes of the parts of a service.

Pure: sizes in, a plan out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from streamer.capacity.session_limit import SLOTS, slots_for

KEPT_FREE: Final = 0.2  # of the memory
MOST_SLOTS: Final = 65536  # no processor carries more
FEWEST_SLOTS: Final = 2  # one for a stream, and one for the probe of the bridge


class Scope(Enum):
    """The unit of a service that needs a part once."""

    SERVICE = "service"
    INSTANCE = "instance"
    SLOT = "slot"
    STREAM = "stream"


@dataclass(frozen=True)
class Part:
    """A part of a service, and the bytes that it takes in each unit of its scope."""

    name: str
    scope: Scope
    main: int
    gpu: int = 0
    most: int | None = None  # the largest number of them in an instance


@dataclass(frozen=True)
class Memory:
    """Bytes of main memory and of the memory of a GPU. `gpu` is None if there is no GPU."""

    main: int
    gpu: int | None = None

    def usable(self) -> Memory:
        """Return the memory that may be used if KEPT_FREE stays free."""
        return self.times(1 - KEPT_FREE)

    def times(self, factor: float) -> Memory:
        """Return the memory multiplied by a factor."""
        return Memory(round(self.main * factor), None if self.gpu is None else round(self.gpu * factor))

    def holds(self, amount: Memory) -> bool:
        """Return whether this amount fits into the memory."""
        return amount.main <= self.main and (self.gpu is None or (amount.gpu or 0) <= self.gpu)


@dataclass(frozen=True)
class Size:
    """The size of a service."""

    instances: int
    slots: int  # in each instance
    streams: int  # at a time

    def number(self, part: Part) -> int:
        """Return how often a service of this size needs the part."""
        every = self.streams if part.scope is Scope.STREAM else self.instances * self.slots
        every = {Scope.SERVICE: 1, Scope.INSTANCE: self.instances}.get(part.scope, every)
        return every if part.most is None else min(every, part.most * self.instances)

    def needed(self, parts: Sequence[Part]) -> Memory:
        """Return how much memory a service of this size takes."""
        return Memory(
            sum(part.main * self.number(part) for part in parts), sum(part.gpu * self.number(part) for part in parts)
        )


class Limit(Enum):
    """The resource that limits the number of sessions."""

    MEMORY = "memory"
    PROCESSORS = "processors"


@dataclass(frozen=True)
class Plan:
    """The recommended size of a service, and the largest one that fits."""

    parts: Sequence[Part]
    memory: Memory
    fits: Size  # the largest service that fits in the memory, with this number of instances
    carried: int | None  # the measured number of sessions that the processors carry; None without a measurement
    recommended: Size
    limit: Limit | None  # None without a measurement of the processors

    @property
    def needed(self) -> Memory:
        """How much memory the recommended service takes, at most."""
        needed = self.recommended.needed(self.parts)
        return Memory(needed.main) if self.memory.gpu is None else needed


class TooSmall(Exception):
    """Not even one stream fits in the memory. `needed` is the necessary memory, with the part that stays free."""

    def __init__(self, needed: Memory) -> None:
        super().__init__()
        self.needed = needed


def largest(parts: Sequence[Part], memory: Memory, instances: int) -> Size:
    """Return the largest service with this number of instances that fits in the memory. TooSmall if none does."""

    def size(slots: int) -> Size:
        return Size(instances, slots, instances * (slots - 1))

    def fits(slots: int) -> bool:
        return memory.usable().holds(size(slots).needed(parts))

    if not fits(FEWEST_SLOTS):
        raise TooSmall(size(FEWEST_SLOTS).needed(parts).times(1 / (1 - KEPT_FREE)))
    low, high = FEWEST_SLOTS, MOST_SLOTS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return size(low)


def fewer_instances(parts: Sequence[Part], memory: Memory, instances: int) -> int:
    """Return how many instances fit in the memory, at most `instances`. TooSmall if not even one does."""
    while instances > 1:
        try:
            return largest(parts, memory, instances).instances
        except TooSmall:
            instances -= 1
    return largest(parts, memory, 1).instances


def plan(parts: Sequence[Part], memory: Memory, instances: int, carried: int | None) -> Plan:
    """Recommend the size of a service. TooSmall if not even one stream for each instance fits in the memory."""
    fits = largest(parts, memory, instances)
    if carried is None:
        slots = min(fits.slots, SLOTS)
        return Plan(parts, memory, fits, None, Size(instances, slots, instances * (slots - 1)), None)
    sessions = min(fits.streams, carried)
    # More slots than sessions need, if there is memory for them.
    recommended = replace(fits, slots=min(fits.slots, slots_for(sessions, instances)), streams=sessions)
    limit = Limit.PROCESSORS if carried < fits.streams else Limit.MEMORY
    return Plan(parts, memory, fits, carried, recommended, limit)
