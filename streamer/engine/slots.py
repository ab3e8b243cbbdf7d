"""Slots, the numbered places for streams in the buffers of a recogniser, and the leases by which streams hold them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from streamer.base.codes import FailureCode
from streamer.engine.stream_events import StreamError


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


# The open streams. Each has a slot until it is closed, or until it gets no request for too long.


class SlotHolder(Protocol):
    """A stream with its slot and the time of its last use."""

    lease: SlotLease
    last_used: float


S = TypeVar("S", bound=SlotHolder)


class OpenStreams(Generic[S]):
    """The open streams by number."""

    def __init__(
        self,
        slots: int,
        idle_limit_s: float,
        clock: Callable[[], float],
        release: Callable[[int, S], None] | None = None,
    ) -> None:
        """`release` is called with each stream when it is closed, while it still has its slot."""
        self.expired = 0  # the number of streams that were dropped because they got no request
        self._slots = Slots(slots)
        self._idle_limit_s = idle_limit_s
        self._now = clock
        self._release = release
        self._streams: dict[int, S] = {}

    @property
    def live(self) -> int:
        """How many streams are open."""
        return self._slots.live

    def __iter__(self) -> Iterator[S]:
        return iter(self._streams.values())

    def open(self, number: int, make: Callable[[SlotLease, float], S]) -> S:
        """Open a stream that `make` makes from its slot and the time. Close the one with this number first, if any."""
        self.close(number)
        try:
            lease = self._slots.acquire()
        except SlotsFull as full:
            raise StreamError(FailureCode.FULL, f"{full}; try again when a stream has ended") from None
        self._streams[number] = make(lease, self._now())
        return self._streams[number]

    def find(self, number: int) -> S | None:
        """Return the stream with this number; None if it is not open."""
        return self._streams.get(number)

    def use(self, number: int) -> S:
        """Return an open stream, and note the time of this use. StreamError if it is not open."""
        stream = self.find(number)
        if stream is None:
            raise StreamError(
                FailureCode.UNKNOWN_STREAM, "the stream was never opened here, has ended, or was idle for too long"
            )
        stream.last_used = self._now()
        return stream

    def keep(self, number: int) -> None:
        """Note that a stream is in use, if it is open."""
        if (stream := self.find(number)) is not None:
            stream.last_used = self._now()

    def holds(self, stream: S) -> bool:
        """Return whether this stream still has its slot."""
        return self._slots.valid(stream.lease)

    def close(self, number: int) -> None:
        """Close a stream and free its slot. Do nothing if no stream with this number is open."""
        stream = self._streams.pop(number, None)
        if stream is not None:
            if self._release is not None:
                self._release(number, stream)
            self._slots.release(stream.lease)

    def expire(self, exceptions: Container[int] = ()) -> list[int]:
        """Close the streams that got no request for longer than the idle limit. Return their numbers."""
        oldest = self._now() - self._idle_limit_s
        idle = [
            number for number, stream in self._streams.items() if stream.last_used < oldest and number not in exceptions
        ]
        for number in idle:
            self.close(number)
        self.expired += len(idle)
        return idle
