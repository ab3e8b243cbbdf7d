"""Plain HTTP at the port, asked of a running server; no recogniser is needed for it."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.http11 import Request

from streamer.bridge.metrics import Metrics
from streamer.bridge.server import BridgeServer

Answer = tuple[int, dict[str, str], str]

only_get = pytest.mark.skipif(
    "method" not in {field.name for field in fields(Request)},
    reason="before version 17 (Python 3.10) websockets hangs up on every method but GET",
)


@pytest.fixture
async def server() -> AsyncIterator[BridgeServer]:
    server = BridgeServer("127.0.0.1", 0, "streaming_asr", Metrics())
    await server.start()
    yield server
    await server.stop()


async def ask(server: BridgeServer, path: str, method: str = "GET", **headers: str) -> Answer:
    def exchange() -> Answer:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=5)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.headers), response.read().decode()
        finally:
            connection.close()

    return await asyncio.to_thread(exchange)


async def test_page(server: BridgeServer) -> None:
    """The page says how to connect, loads nothing from elsewhere, and may not."""
    status, headers, text = await ask(server, "/?from=somewhere")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "/v1/stream" in text
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
    assert not re.search(r"<script|<style|style=|\son\w+=", text)


async def test_page_files(server: BridgeServer) -> None:
    """What the page asks for is there."""
    _, _, text = await ask(server, "/")
    for path in re.findall(r"href=\"(/[^\"]+)\"", text):
        status, headers, _ = await ask(server, path)
        assert status == (503 if path == "/readyz" else 200), path
        assert headers["X-Content-Type-Options"] == "nosniff"


async def test_healthz(server: BridgeServer) -> None:
    """A process that answers is alive, whether or not it is ready."""
    assert (await ask(server, "/healthz"))[0::2] == (200, "alive\n")


async def test_not_ready(server: BridgeServer) -> None:
    """Without a recogniser the service says that it is not ready, and when to ask again."""
    status, headers, text = await ask(server, "/readyz")
    assert status == 503
    assert int(headers["Retry-After"]) > 0
    state: dict[str, Any] = json.loads(text)
    assert (state["service"], state["ready"]) == ("streamer", False)


async def test_metrics(server: BridgeServer) -> None:
    """Prometheus can read the metrics."""
    status, headers, text = await ask(server, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert "streamer_ready 0.0" in text


@pytest.mark.parametrize("path", ["/nothing", "/v1/stream/", "/../pyproject.toml", "/index.html", "//healthz"])
async def test_not_found(server: BridgeServer, path: str) -> None:
    """Any other path is answered with a sentence that names the right ones."""
    status, _, text = await ask(server, path)
    assert status == 404
    assert "/v1/stream" in text


@only_get
async def test_head(server: BridgeServer) -> None:
    """HEAD gives the length without the content."""
    status, headers, text = await ask(server, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 500


@only_get
async def test_wrong_method(server: BridgeServer) -> None:
    """Nothing can be written."""
    status, headers, _ = await ask(server, "/", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


async def test_websocket_path_without_websocket(server: BridgeServer) -> None:
    """A plain request for the websocket is told to upgrade."""
    status, headers, text = await ask(server, "/v1/stream")
    assert (status, headers["Upgrade"]) == (426, "websocket")
    assert "WebSocket client" in text
