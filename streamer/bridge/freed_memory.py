"""Memory that was freed goes back to the system when a crowd has gone: the C library keeps it for later otherwise.

Hundreds of handshakes of TLS hold 80 MB, none of which is seen as free from outside after they have ended.
"""

from __future__ import annotations

import asyncio
import ctypes

# So many connections are a crowd, and it has gone when an eighth of it is left.
CROWD = 64
GONE = 8


class FreedMemory:
    """Is told how many connections there are."""

    def __init__(self) -> None:
        self._most = 0
        try:
            self._trim = ctypes.CDLL(None).malloc_trim
        except (AttributeError, OSError):  # not the C library of GNU
            self._trim = None

    def crowd(self, number: int) -> None:
        """So many there are now. Giving back takes some milliseconds of a thread of its own."""
        self._most = max(self._most, number)
        if self._most >= CROWD and number <= self._most // GONE:
            self._most = number
            if self._trim is not None:
                asyncio.get_running_loop().run_in_executor(None, self._trim, 0)
