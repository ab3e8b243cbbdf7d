"""For the tests of who may come in: keys, an authority for certificates, and a port that has no recogniser."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trustme
from cryptography.hazmat.primitives import serialization
from websockets.asyncio.client import ClientConnection, connect

from streamer.bridge.access.keys import make_key
from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.server import BridgeServer
from streamer.bridge.telemetry.metrics import Metrics
from tests.bridge.clients import rest
from tests.bridge.upstreams.opened_models import models_at

ALICE, BOB = make_key("alice"), make_key("bob")
START = '{"type":"start"}'
# What a service without a recogniser says to those who may come in.
ADMITTED = ("not_ready", 1013)


@asynccontextmanager
async def listening(access: AccessRules | None = None, **settings: Any) -> AsyncIterator[BridgeServer]:
    """A port without a recogniser."""
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
    """Error code and close code of a session that is asked for."""
    async with connect(url, additional_headers=headers, **settings) as websocket:
        return await started(websocket)


async def started(websocket: ClientConnection) -> tuple[str, int | None]:
    await websocket.send(START)
    (error,) = await rest(websocket)
    assert (error["type"], error["fatal"]) == ("error", True)
    assert len(error["message"].split()) > 5
    return error["code"], websocket.close_code


async def ask(url: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    def exchange() -> tuple[int, dict[str, str]]:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.headers)
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


class Authority:
    """Certificates for localhost of an authority of our own, in the two files that a service reads."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.key, self.root = folder / "chain.pem", folder / "key.pem", folder / "root.pem"
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(self.root))
        self.renew()

    def renew(self, chain: bool = True, key: bool = True) -> None:
        """A new certificate; not both of its files if only one has been written so far."""
        issued = self._authority.issue_cert("localhost")
        if chain:
            self.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        if key:
            self.key.write_bytes(issued.private_key_pem.bytes())

    def lock(self) -> None:
        """Gives the private key a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        form, encryption = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
        self.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))

    @property
    def trusted(self) -> ssl.SSLContext:
        """For a client that knows this authority."""
        return ssl.create_default_context(cafile=str(self.root))
