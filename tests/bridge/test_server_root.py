"""What is at the path `/`: the page, and a websocket for clients that know no path."""

from __future__ import annotations

import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from streamer.bridge.access.keys import KeyFile
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.testing import say
from streamer.wire.dialects.formats import NATIVE, ROOTS
from tests.bridge.access.bare_port import ADMITTED, ALICE, bearer, listening, outcome
from tests.bridge.dialects.deepgram_client import LINEAR
from tests.bridge.dialects.self_hosted_clients import CLIENTS, QUERIES, speak
from tests.bridge.http.asking import ask


@pytest.mark.parametrize("root", ROOTS)
async def test_the_page_stays(root: str) -> None:
    """A browser gets it whatever the websocket speaks, also if it offers another protocol with its request."""
    async with listening(root=root) as server:
        for offers in ({}, {"Upgrade": "h2c", "Connection": "Upgrade"}):
            status, headers, text = await ask(server, "/", **offers)
            assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert "<title>" in text
        status, headers, _ = await ask(server, "/", "POST")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_the_native_protocol() -> None:
    """It is at `/` unless the operator wants another format there."""
    async with listening() as server:
        assert await outcome(f"ws://127.0.0.1:{server.port}") == ADMITTED


@pytest.mark.parametrize("root", [root for root in ROOTS if root != NATIVE])
async def test_another_format(keys: KeyFile, root: str) -> None:
    """Its refusals come before the upgrade, and keys are checked as at its own path."""
    async with listening(AccessRules(keys), root=root) as server:
        url = f"ws://127.0.0.1:{server.port}/?{QUERIES.get(root, LINEAR)}"
        answers = []
        for headers in (bearer("wrong"), bearer(ALICE.secret)):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=headers)
            answers.append(refused.value.response.status_code)
            assert json.loads(refused.value.response.body or b"")
        assert answers == [401, 503]


@pytest.mark.parametrize("format", CLIENTS)
async def test_a_session_at_the_root(exact_triton: TritonServer, format: str) -> None:
    """A client that knows no path is understood."""
    async with Service(exact_triton.grpc_address, port=0, policy=PortPolicy(root=format)) as service:
        assert " ".join(await speak(service.url, format, say("hello world"), root=True)).lower() == "hello world"
