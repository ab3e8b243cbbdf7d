"""Slots, the numbered places for streams in the buffers of a recogniser, and the leases by which streams hold them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


class SlotsFull(Exception):
    """Live streams hold all slots."""


@dataclass(frozen=True)
class SlotLease:
    """The right of one stream to one slot. The generation number distinguishes it from earlier and later leases."""

    slot: int
    generation: int


class Slots:
    """Hands out slots and takes them back. A lease is valid until it is released, and never again."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("there must be at least one slot")
        self._free = list(range(count))  # a heap
        self._generations = [0] * count
        self._in_use = [False] * count

    def __len__(self) -> int:
        return len(self._in_use)

    @property
    def live(self) -> int:
        """How many slots are in use."""
        return len(self._in_use) - len(self._free)

    def acquire(self) -> SlotLease:
        """Lease the first free slot under a new generation number, so that slots in use lie side by side.

        SlotsFull if there is no free slot.
        """
        if not self._free:
            raise SlotsFull(f"all {len(self)} slots are taken")
        slot = heapq.heappop(self._free)
        self._generations[slot] += 1
        self._in_use[slot] = True
        return SlotLease(slot, self._generations[slot])

    def valid(self, lease: SlotLease) -> bool:
        """Return whether this lease still holds its slot."""
        return self._in_use[lease.slot] and self._generations[lease.slot] == lease.generation

    def release(self, lease: SlotLease) -> None:
        """Give the slot back. Do nothing if the lease is no longer valid."""
        if self.valid(lease):
            self._in_use[lease.slot] = False
            heapq.heappush(self._free, lease.slot)
