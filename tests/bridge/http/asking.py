"""Plain HTTP requests to a port without a recogniser."""

from __future__ import annotations

import asyncio
import http.client
from urllib.parse import urlsplit

from streamer.bridge.server import BridgeServer

Answer = tuple[int, dict[str, str], str]


async def ask(server: BridgeServer, path: str, method: str = "GET", **headers: str) -> Answer:
    def exchange() -> Answer:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read().decode()
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)
