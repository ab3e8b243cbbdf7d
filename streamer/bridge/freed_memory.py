"""Memory goes back to the system when a crowd has gone: otherwise it is kept for later, and looks as if it were used.

Hundreds of handshakes of TLS hold 80 MB or more. Their objects point at each other, so that Python frees them late, and
the C library keeps what was freed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import suppress

# So many connections are a crowd, and it has gone when an eighth of it is left.
CROWD = 64
GONE = 8
# Connections that have just ended are still held here and there.
SOON_S = 1.0
# It takes some ten milliseconds, in which nobody is served: whoever comes and goes in crowds cannot have it more often.
SELDOM_S = 20.0


class FreedMemory:
    """Is told how many connections there are."""

    def __init__(self) -> None:
        self._most = 0
        self._due: asyncio.TimerHandle | None = None
        self._given_back_at = -SELDOM_S

    def crowd(self, number: int) -> None:
        """So many there are now."""
        self._most = max(self._most, number)
        if self._most >= CROWD and number <= self._most // GONE:
            self._most = number
            if self._due is None:
                loop = asyncio.get_running_loop()
                at = max(loop.time() + SOON_S, self._given_back_at + SELDOM_S)
                self._due = loop.call_at(at, self._give_back)

    def _give_back(self) -> None:
        self._due, self._given_back_at = None, asyncio.get_running_loop().time()
        give_back()


def give_back() -> None:
    """Whatever is not used any more."""
    gc.collect()
    with suppress(AttributeError, OSError):  # where it is not the C library of GNU, it does as it likes
        ctypes.CDLL(None).malloc_trim(0)
