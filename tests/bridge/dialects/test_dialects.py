"""Who may open a websocket in a foreign format, with a port that has no recogniser."""

from __future__ import annotations

import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.server import BridgeServer
from tests.bridge.access.bare_port import ALICE, listening
from tests.bridge.dialects.deepgram_client import LINEAR, address
from tests.bridge.http.asking import ask


async def refused(server: BridgeServer, *offered: str, **headers: str) -> tuple[int, str]:
    """Return the status and the code with which a websocket is refused."""
    with pytest.raises(InvalidStatus) as caught:
        await connect(
            address(server.url, LINEAR),
            additional_headers=headers,
            subprotocols=[Subprotocol(name) for name in offered] or None,
        )
    response = caught.value.response
    return response.status_code, json.loads(response.body or b"")["err_code"]


ADMITTED = (503, "SERVICE_UNAVAILABLE")  # there is no recogniser, but the key is right


@pytest.mark.parametrize("scheme", ["Token", "token", "Bearer", "BEARER"])
async def test_a_key_in_the_header(keys: KeyFile, scheme: str) -> None:
    """The scheme of a key in the header may have any case."""
    async with listening(AccessRules(keys)) as server:
        assert await refused(server, Authorization=f"{scheme} {ALICE.secret}") == ADMITTED
        assert await refused(server, Authorization=f"{scheme} wrong") == (401, "INVALID_AUTH")


async def test_a_key_as_a_subprotocol(keys: KeyFile) -> None:
    """A key may be a subprotocol, as browsers send it."""
    async with listening(AccessRules(keys)) as server:
        assert await refused(server) == (401, "INVALID_AUTH")
        for names in (("token", ALICE.secret), ("bearer", ALICE.secret), ("token", ALICE.secret, "x-session", "5")):
            assert await refused(server, *names) == ADMITTED
        assert await refused(server, "token") == (401, "INVALID_AUTH")
        assert await refused(server, "token", "wrong") == (401, "INVALID_AUTH")


async def test_a_page_of_another_site(keys: KeyFile) -> None:
    """A page of another site is refused, as at other paths."""
    async with listening(AccessRules(keys)) as server:
        headers = {"Authorization": f"Token {ALICE.secret}", "Origin": "https://elsewhere.example"}
        assert await refused(server, **headers) == (403, "INSUFFICIENT_PERMISSIONS")


async def test_a_plain_request() -> None:
    """A plain request without an upgrade learns that an upgrade is needed."""
    async with listening() as server:
        status, _, text = await ask(server, "/v1/listen")
        assert (status, json.loads(text)["err_code"]) == (426, "UPGRADE_REQUIRED")


async def test_a_page_that_is_allowed(keys: KeyFile) -> None:
    """The browser of an allowed page may ask first whether it may send a recording with a key."""
    async with listening(AccessRules(keys, origins=["https://elsewhere.example"])) as server:
        asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Headers": "authorization"}
        status, headers, _ = await ask(server, "/v1/listen", method="OPTIONS", **asked)
        assert (status, headers["Access-Control-Allow-Methods"]) == (204, "GET, POST")
        assert headers["Access-Control-Allow-Origin"] == "https://elsewhere.example"


async def test_too_many_options() -> None:
    """Too many options are refused before any work."""
    async with listening() as server:
        with pytest.raises(InvalidStatus) as caught:
            await connect(address(server.url, "&".join(["tag=a"] * 500)))
        assert caught.value.response.status_code == 400
