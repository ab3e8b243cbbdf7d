"""Returns memory to the system after many connections have ended. Otherwise the process keeps it, and looks larger.

Hundreds of TLS handshakes hold 80 MB or more. Their objects refer to each other, so Python frees them late, and the C
library keeps the freed memory.
"""

from __future__ import annotations

import asyncio
import gc

from streamer.machine.freed_memory import give_back_freed_memory

CROWD = 64  # connections
GONE = 8  # the crowd has gone when no more than one in eight of its connections is left
# Wait before returning memory, because connections that have just ended still hold some.
DELAY_S = 1.0
# Returning memory blocks the service for some ten milliseconds, so it must not happen more often than this.
SHORTEST_INTERVAL_S = 20.0


class FreedMemory:
    """Watches the number of connections, and returns memory when a crowd has gone."""

    def __init__(self) -> None:
        self._most = 0
        self._due: asyncio.TimerHandle | None = None
        self._given_back_at = -SHORTEST_INTERVAL_S

    def note(self, number: int) -> None:
        """Note how many connections there are now."""
        self._most = max(self._most, number)
        if self._most >= CROWD and number <= self._most // GONE:
            self._most = number
            if self._due is None:
                loop = asyncio.get_running_loop()
                at = max(loop.time() + DELAY_S, self._given_back_at + SHORTEST_INTERVAL_S)
                self._due = loop.call_at(at, self._give_back)

    def _give_back(self) -> None:
        self._due, self._given_back_at = None, asyncio.get_running_loop().time()
        give_back()


def give_back() -> None:
    """Return unused memory to the system."""
    gc.collect()
    give_back_freed_memory()
