"""A port without a recogniser, keys for it, and the outcome of sessions that are requested there."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.access.keys import make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.server import BridgeServer
from streamer.bridge.telemetry.metrics import Metrics
from tests.bridge.service_client import rest
from tests.bridge.upstreams.opened_models import models_at

ALICE, BOB = make_key("alice"), make_key("bob")
START = '{"type":"start"}'
TOKEN, OTHER = "0123456789abcdef0123456789abcdef", "f" * 32  # of accounts whose calls are signed
# What a service without a recogniser answers to callers that are admitted.
ADMITTED = ("not_ready", 1013)


@asynccontextmanager
async def listening(access: AccessRules | None = None, **settings: Any) -> AsyncIterator[BridgeServer]:
    """Serves a port without a recogniser."""
    policy = PortPolicy(access or AccessRules(), **settings)
    server = BridgeServer("127.0.0.1", 0, models_at(), Metrics(), policy=policy)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def outcome(url: str, headers: dict[str, str] | None = None, **settings: Any) -> tuple[str, int | None]:
    """Return the error code and the close code of a session that is requested."""
    async with connect(url, additional_headers=headers, **settings) as websocket:
        return await started(websocket)


async def started(websocket: ClientConnection) -> tuple[str, int | None]:
    with suppress(ConnectionClosed):  # a caller that is not admitted may be told before it has sent anything
        await websocket.send(START)
    (error,) = await rest(websocket)
    assert (error["type"], error["fatal"]) == ("error", True)
    assert len(error["message"].split()) > 5
    return error["code"], websocket.close_code


async def ask(url: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    def exchange() -> tuple[int, dict[str, str]]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.headers)
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


def signature(address: str, token: str = TOKEN, algorithm: Any = hashlib.sha1) -> str:
    """Sign an address as Twilio does: its own code is tried in tests/clients."""
    return base64.b64encode(hmac.new(token.encode(), address.encode(), algorithm).digest()).decode()
