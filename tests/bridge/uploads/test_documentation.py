"""The description of the HTTP interface: it names every option, and its page needs nothing from elsewhere."""

from __future__ import annotations

import json
import re

from streamer.bridge.server import BridgeServer
from streamer.wire.native_upload import OPTIONS
from tests.bridge.access.bare_port import listening
from tests.bridge.http.asking import ask


async def test_every_option_is_described() -> None:
    """The description has every option that the service accepts, and every reference leads somewhere."""
    async with listening() as server:
        status, headers, text = await ask(server, "/openapi.json")
    described = json.loads(text)
    assert (status, headers["Content-Type"], described["openapi"]) == (200, "application/json", "3.1.0")
    operation = described["paths"]["/v1/transcribe"]["post"]
    assert {each["name"] for each in operation["parameters"]} == set(OPTIONS)
    assert all(each["description"] for each in operation["parameters"])
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert referred == set(described["components"]["schemas"])


async def test_the_page_needs_no_other_network() -> None:
    """The page loads one style sheet of the service itself, and no script."""
    async with listening() as server:
        status, headers, page = await ask(server, "/docs")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert loaded
        assert all([await _is_served(server, path) for path in loaded])
    assert "<script" not in page
    assert "<code>POST /v1/transcribe</code>" in page


async def _is_served(server: BridgeServer, path: str) -> bool:
    return path.startswith("/") and (await ask(server, path))[0] == 200
