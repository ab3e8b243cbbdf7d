"""Connections whose request has not come yet: each may take its time, but there are at most so many of them."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.server import ServerConnection

# More than that are cut off at once: nothing is known of them that could be told politely.
MOST_HANDSHAKES = 256


class Handshakes:
    """Those of one port."""

    def __init__(self) -> None:
        self.under_way: set[ServerConnection] = set()

    def connection(self, *arguments: Any, **settings: Any) -> ServerConnection:
        """Called by the websocket library for each connection."""
        return _Connection(self, *arguments, **settings)


class _Connection(ServerConnection):
    def __init__(self, handshakes: Handshakes, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._handshakes = handshakes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._handshakes.under_way) >= MOST_HANDSHAKES:
            self.transport.abort()
        else:
            self._handshakes.under_way.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshakes.under_way.discard(self)
        super().connection_lost(exc)

    async def handshake(self, *arguments: Any, **settings: Any) -> None:
        try:
            await super().handshake(*arguments, **settings)
        finally:
            self._handshakes.under_way.discard(self)
