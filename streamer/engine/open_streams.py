"""The streams that are open: each holds a slot until it is closed, or until it gets no request for too long."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Generic, Protocol, TypeVar

from streamer.engine.slots import SlotLease, Slots, SlotsFull
from streamer.engine.stream_events import StreamError


class SlotHolder(Protocol):
    """One stream: its slot, and when it was last used."""

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
        """`release` is called with each stream that is closed, while it still has its slot."""
        self.expired = 0  # streams dropped because they got no request
        self._slots = Slots(slots)
        self._idle_limit_s = idle_limit_s
        self._now = clock
        self._release = release
        self._streams: dict[int, S] = {}

    @property
    def live(self) -> int:
        """How many streams are open."""
        return self._slots.live

    def open(self, number: int, make: Callable[[SlotLease, float], S]) -> S:
        """Open a stream, which `make` makes from its slot and the time. If one is open already, it is closed first."""
        self.close(number)
        try:
            lease = self._slots.acquire()
        except SlotsFull as full:
            raise StreamError("full", f"{full}; try again when a stream has ended") from None
        self._streams[number] = make(lease, self._now())
        return self._streams[number]

    def find(self, number: int) -> S | None:
        """An open stream; None if it is not open."""
        return self._streams.get(number)

    def use(self, number: int) -> S:
        """Return an open stream, and note that it is used. StreamError if it is not open."""
        stream = self.find(number)
        if stream is None:
            raise StreamError("unknown_stream", "the stream was never opened here, has ended, or was idle for too long")
        stream.last_used = self._now()
        return stream

    def holds(self, stream: S) -> bool:
        """Whether this stream still has its slot."""
        return self._slots.valid(stream.lease)

    def close(self, number: int) -> None:
        """Close a stream and free its slot. A number that is not open has no effect."""
        closed = self._streams.pop(number, None)
        if closed is not None:
            if self._release is not None:
                self._release(number, closed)
            self._slots.release(closed.lease)

    def expire(self, spared: Container[int] = ()) -> list[int]:
        """Close the streams that got no request for longer than the idle limit. Returns their numbers."""
        oldest = self._now() - self._idle_limit_s
        idle = [
            number for number, stream in self._streams.items() if stream.last_used < oldest and number not in spared
        ]
        for number in idle:
            self.close(number)
        self.expired += len(idle)
        return idle
