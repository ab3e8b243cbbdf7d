"""What the port reports about the service. No recogniser is needed for these tests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.server import BridgeServer
from tests.bridge.http.asking import ask


async def test_healthz(server: BridgeServer) -> None:
    """A process that answers is alive, ready or not."""
    assert (await ask(server, "/healthz"))[0::2] == (200, "alive\n")


async def test_not_ready(server: BridgeServer) -> None:
    """Without a recogniser the service reports that it is not ready, and when to ask again."""
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


@pytest.mark.parametrize("path", ["/nothing", "/v1/stream/", "/../pyproject.toml", "/index.html", "//healthz", "//["])
async def test_not_found(server: BridgeServer, path: str) -> None:
    """Another path is answered with a sentence that lists the right ones; browsers get it as plain text."""
    for method in ("GET", "POST"):
        status, headers, text = await ask(server, path, method)
        assert (status, headers["Content-Type"]) == (404, "application/json")
        error = json.loads(text)["error"]
        assert error["code"] == "not_found"
        assert "/v1/stream" in error["message"]
    status, headers, text = await ask(server, path, Accept="text/html,*/*")
    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert text == f"{error['message']}\n"


async def test_wrong_method(server: BridgeServer) -> None:
    """All paths are read-only."""
    status, headers, text = await ask(server, "/", "POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(text)["error"]["code"] == "method_not_allowed"


async def test_websocket_path_without_websocket(server: BridgeServer) -> None:
    """A plain request for the websocket is told to upgrade."""
    status, headers, text = await ask(server, "/v1/stream")
    assert (status, headers["Upgrade"]) == (426, "websocket")
    assert "WebSocket client" in text
    assert json.loads(text)["error"]["code"] == "upgrade_required"


async def test_connections_are_told(server: BridgeServer) -> None:
    """Connections are counted by state from the start, and those that were cut off are counted too."""
    _, silent = await asyncio.open_connection("127.0.0.1", server.port)
    async with connect(server.url):
        _, _, text = await ask(server, "/metrics")
    for state, number in (("opening", 1), ("idle", 0), ("answering", 1), ("websocket", 1)):
        assert f'streamer_connections{{state="{state}"}} {number}' in text
    assert 'streamer_connections_dropped_total{reason="too_many"} 0.0' in text
    assert "streamer_http_errors_total 0.0" in text
    assert "streamer_accept_failures_total 0.0" in text
    silent.close()
