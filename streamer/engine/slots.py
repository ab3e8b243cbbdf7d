"""Slots: the numbered places in the model's buffers, who holds each, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


class SlotsFull(Exception):
    """Every slot is held by a live stream."""


@dataclass(frozen=True)
class Lease:
    """The right to one slot for one stream: the generation tells it from those before and after."""

    slot: int
    generation: int


class Slots:
    """Hands out slots and takes them back; a lease is valid from one to the other and never again."""

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("there must be at least one slot")
        self._free = list(range(count - 1, -1, -1))
        self._generations = [0] * count
        self._held = [False] * count

    def __len__(self) -> int:
        return len(self._held)

    @property
    def live(self) -> int:
        """How many slots are held."""
        return len(self._held) - len(self._free)

    def acquire(self) -> Lease:
        """A free slot under a generation of its own, or SlotsFull."""
        if not self._free:
            raise SlotsFull(f"all {len(self)} slots are taken")
        slot = self._free.pop()
        self._generations[slot] += 1
        self._held[slot] = True
        return Lease(slot, self._generations[slot])

    def valid(self, lease: Lease) -> bool:
        """Whether the slot still belongs to that lease."""
        return self._held[lease.slot] and self._generations[lease.slot] == lease.generation

    def release(self, lease: Lease) -> None:
        """Give a slot back; a lease that is no longer valid changes nothing."""
        if self.valid(lease):
            self._held[lease.slot] = False
            self._free.append(lease.slot)
