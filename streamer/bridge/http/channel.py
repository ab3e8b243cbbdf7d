"""Both directions of a connection. While more data waits to be written than its mark, nothing more is read.

So a client that does not read cannot make buffers grow, neither with requests nor with pings.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import cast

# Bytes that may wait for a client that does not read, besides the kernel's buffer. At the high mark, writing pauses
# until fewer than the low mark wait.
UNSENT_HIGH, UNSENT_LOW = 32 * 1024, 8 * 1024
# A client that takes longer than this from the high mark to the low one is cut off.
STALL_LIMIT_S = 15.0

NOT_READ = "not_read"


class Channel(asyncio.Protocol):
    """What HTTP and a websocket have in common: a transport with marks, and bytes that were received but not parsed."""

    def __init__(self, dropped: Callable[[str], None]) -> None:
        """`dropped` is called with the reason when the connection is cut off."""
        self.dropped = dropped
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._made = False
        self._reading = True
        self._clogged = False  # more waits to be written than the mark
        self._interrupted = False  # drained() must not wait any more
        self.lost = False  # the connection is gone
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._drain: asyncio.Future[None] | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def made(self) -> bool:
        """Whether the connection was ever established. With TLS that takes a while."""
        return self._made

    @property
    def unsent(self) -> int:
        """The number of bytes that wait to be written."""
        with suppress(AttributeError):  # Python 3.10: TLS over a connection that has just been lost
            return 0 if self._transport is None or self.lost else self._transport.get_write_buffer_size()
        return 0

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
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """Hand data to the transport, without waiting."""
        # The transport knows first that the connection is gone, and asyncio logs writing on all the same.
        if data and self._transport is not None and not self.lost and not self._transport.is_closing():
            self._transport.write(data)

    async def drained(self, deadline: float) -> bool:
        """Wait until there is room to write, or until interrupted. False if there is none by this time of the loop."""
        while self._clogged and not self.lost and not self._interrupted:
            left = deadline - self._loop.time()
            if left <= 0:
                return False
            self._drain = self._loop.create_future()
            try:
                await asyncio.wait({self._drain}, timeout=left)
            finally:
                self._drain = None
        return True

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established."""
        self._made = True
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(UNSENT_HIGH, UNSENT_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is lost."""
        self._cancel_timers()
        if self._transport is not None:
            self._transport.close()  # needed only for TLS in Python 3.10
        self.lost = True
        if not self._lost.done():
            self._lost.set_result(None)
        self._stir_writer()

    def pause_writing(self) -> None:
        """More waits to be written than the high mark: the client does not read."""
        self._clogged = True
        self._stall = self._loop.call_later(STALL_LIMIT_S, self._stalled)
        self.balance()

    def resume_writing(self) -> None:
        """Less waits to be written than the low mark: the client has read."""
        self._clogged = False
        if self._stall is not None:
            self._stall.cancel()
        self._stir_writer()
        self.balance()

    # For subclasses

    @property
    @abstractmethod
    def wants_more(self) -> bool:
        """Whether the socket is to be read."""

    def balance(self) -> None:
        """Start or stop reading the socket."""
        wanted = self.wants_more
        if self._transport is None or self.lost or wanted is self._reading:
            return
        self._reading = wanted
        with suppress(AttributeError):  # as above
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def end_by(self, limit_s: float) -> None:
        """Cut the connection off in so many seconds if it has not ended by then."""
        if self._expiry is None and not self.lost:
            self._expiry = self._loop.call_later(limit_s, self.abort)

    def half_close(self) -> bool:
        """End the writing side only, if that is possible. With TLS it is not."""
        if self._transport is None or self.lost or not self._transport.can_write_eof():
            return False
        with suppress(OSError):  # it has just been reset
            self._transport.write_eof()
        return True

    def stalled(self) -> None:
        """Called just before a client that does not read is cut off."""

    def _stalled(self) -> None:
        self.stalled()
        self.dropped(NOT_READ)
        self.abort()

    def _cancel_timers(self) -> None:
        for timer in (self._stall, self._expiry):
            if timer is not None:
                timer.cancel()

    def _stir_writer(self) -> None:
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
