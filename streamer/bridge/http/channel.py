"""Both directions of a connection, with a bound on what waits: while too much waits to be written, nothing is read.

So a client that does not read cannot make buffers grow, neither with requests nor with pings.
"""

from __future__ import annotations

import asyncio
import select
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Final, cast

from streamer.base.codes import QuietEnding

# Bytes that may wait for a client that does not read, besides the kernel's buffer. At the high mark, writing pauses
# until fewer than the low mark wait.
UNSENT_HIGH, UNSENT_LOW = 32 * 1024, 8 * 1024
# A client that takes longer than this from the high mark to the low one is cut off.
STALL_LIMIT_S = 15.0

NOT_READ = QuietEnding.NOT_READ


class Channel(asyncio.Protocol):
    """The base of HTTP and of a websocket: a transport with marks, and bytes that were received but not parsed."""

    def __init__(self, on_drop: Callable[[str], None]) -> None:
        """`on_drop` is called with the reason when the connection is cut off."""
        self.on_drop = on_drop
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._made = False
        self._reading = True
        self._clogged = False  # more than the high mark waits to be written
        self._interrupted = False  # drain() must not wait any more
        self.lost = False  # the connection is gone
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._draining: asyncio.Future[None] | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def made(self) -> bool:
        """Whether the connection was ever established. With TLS that takes a while."""
        return self._made

    def inherit(self, former: Channel) -> None:
        """Take over the transport of another channel, which gets nothing from it any more."""
        transport = former._transport
        assert transport is not None
        former._cancel_timers()
        former._transport = None
        transport.set_protocol(self)
        self._transport, self._reading = transport, former._reading
        if former._clogged:
            self.pause_writing()

    def abort(self) -> None:
        """Cut the connection off."""
        # asyncio fails if a transport is cut off that has closed itself after its last data was written.
        if self._transport is not None and not self.lost:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """Hand data to the transport, without waiting."""
        # The transport learns first that the connection is gone, and asyncio logs each write after that.
        if data and self._transport is not None and not self.lost and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self, deadline: float) -> bool:
        """Wait until there is room to write, or until interrupted. Return False if there is none at the deadline."""
        while self._clogged and not self.lost and not self._interrupted:
            remaining = deadline - self._loop.time()
            if remaining <= 0:
                return False
            self._draining = self._loop.create_future()
            try:
                await asyncio.wait({self._draining}, timeout=remaining)
            finally:
                self._draining = None
        return True

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection is established."""
        self._made = True
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(UNSENT_HIGH, UNSENT_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is lost."""
        self._cancel_timers()
        if self._transport is not None:
            self._transport.close()  # needed only for TLS in Python 3.10
        self.lost = True
        if not self._lost.done():
            self._lost.set_result(None)
        self._wake_writer()

    def pause_writing(self) -> None:
        """Note that more than the high mark waits to be written, because the client does not read."""
        self._clogged = True
        self._stall = self._loop.call_later(STALL_LIMIT_S, self._cut_off_stalled)
        self.balance()

    def resume_writing(self) -> None:
        """Note that less than the low mark waits to be written, because the client has read."""
        self._clogged = False
        if self._stall is not None:
            self._stall.cancel()
        self._wake_writer()
        self.balance()

    # For subclasses

    @property
    @abstractmethod
    def wants_more(self) -> bool:
        """Whether the socket should be read."""

    def balance(self) -> None:
        """Start or stop reading the socket."""
        reading = self.wants_more
        if self._transport is None or self.lost or reading is self._reading:
            return
        self._reading = reading
        with suppress(AttributeError):  # Python 3.10: TLS over a connection that has just been lost
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def end_by(self, limit_s: float) -> None:
        """Cut the connection off if it has not ended within this limit."""
        if self._expiry is None and not self.lost:
            self._expiry = self._loop.call_later(limit_s, self.abort)

    def half_close(self) -> bool:
        """End the writing side only. Return False if that is not possible, as with TLS."""
        if self._transport is None or self.lost or not self._transport.can_write_eof():
            return False
        with suppress(OSError):  # it has just been reset
            self._transport.write_eof()
        return True

    def note_stall(self) -> None:
        """Do what is needed just before a client that does not read is cut off."""

    def _cut_off_stalled(self) -> None:
        self.note_stall()
        self.on_drop(NOT_READ)
        self.abort()

    def _cancel_timers(self) -> None:
        for timer in (self._stall, self._expiry):
            if timer is not None:
                timer.cancel()

    def _wake_writer(self) -> None:
        if self._draining is not None and not self._draining.done():
            self._draining.set_result(None)


# Looks at a socket that is not read. asyncio notices only what it reads.


class Ending(Enum):
    """What has become of the other side of a connection."""

    NONE = auto()
    ENDED = auto()  # it sends no more; it may still read, or it may be gone
    LOST = auto()


# Only Linux tells that the other side has ended before everything was read.
_ENDED: Final[int] = getattr(select, "POLLRDHUP", 0)


def ending_of(transport: asyncio.Transport) -> Ending:
    """Return what has become of the other side, even if data of it waits to be read."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _ENDED)
    [(_, events)] = poll.poll(0) or [(0, 0)]
    if events & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
        return Ending.LOST
    return Ending.ENDED if events & _ENDED else Ending.NONE


# Counts connections by their state, each from the moment it is accepted.

OPENING: Final = "opening"  # the TLS handshake is under way, or the first request has not come
IDLE: Final = "idle"  # kept for another request
ANSWERING: Final = "answering"  # a request is being read or answered
LISTENING: Final = "listening"  # an answer that lasts as long as somebody reads it
WEBSOCKET: Final = "websocket"
STATES: Final = (OPENING, IDLE, ANSWERING, LISTENING, WEBSOCKET)

# Further connections are cut off at once, without an answer.
MOST_OPENING = 256
# Further connections are closed after their answer. A client with more requests must connect again.
MOST_IDLE = 128
# Further requests are answered with 503.
MOST_ANSWERING = 256


class ConnectionCounts:
    """The connections of one port."""

    def __init__(self, on_change: Callable[[int], None] = lambda _: None) -> None:
        """`on_change` is called with the number of connections when one comes or goes."""
        self.numbers = dict.fromkeys(STATES, 0)
        self._on_change = on_change

    def add(self, state: str, number: int) -> None:
        """Add to the number of connections in this state."""
        self.numbers[state] += number
        self._on_change(sum(self.numbers.values()))

    def enter(self) -> CountedConnection | None:
        """Count a new connection; None if too many are opening already."""
        return CountedConnection(self) if self.numbers[OPENING] < MOST_OPENING else None

    @property
    def room_for_idle(self) -> bool:
        """Whether another connection may be kept for its next request."""
        return self.numbers[IDLE] < MOST_IDLE

    @property
    def room_for_answering(self) -> bool:
        """Whether another request may be answered."""
        return self.numbers[ANSWERING] < MOST_ANSWERING


class CountedConnection:
    """One connection that is counted."""

    def __init__(self, counts: ConnectionCounts) -> None:
        self._counts = counts
        self._state: str | None = OPENING
        counts.add(OPENING, 1)

    @property
    def state(self) -> str | None:
        """The state of the connection; None once it has ended."""
        return self._state

    def move(self, state: str) -> None:
        """Change to another state."""
        if self._state is not None:
            self._counts.numbers[self._state] -= 1
            self._counts.numbers[state] += 1
            self._state = state

    def leave(self) -> None:
        """Stop counting it. This may be called again."""
        if self._state is not None:
            self._counts.add(self._state, -1)
            self._state = None
