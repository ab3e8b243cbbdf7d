"""The routes of paths, the page and its files, and what the port reports about the service."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.http.request import HttpError, Request, Response, text
from streamer.bridge.http.routes import WEB, PathPattern, Route, Routes
from streamer.bridge.server import BridgeServer
from tests.bridge.http.asking import ask


async def answer(_: Request) -> Response:
    return text(200, "here")  # type: ignore[arg-type]


def table() -> Routes:
    routes = Routes("There is /here.")
    routes.add([("/here", Route({"GET": answer, "POST": answer})), ("/socket", Route())])
    return routes


def test_found() -> None:
    """A path must match exactly; where GET is allowed, HEAD is too."""
    for method in ("GET", "HEAD", "POST"):
        request = Request(method, "/here", "query")
        assert table().find(request).handler(request) is answer


@pytest.mark.parametrize("path", ["/", "/here/", "/HERE", "//here", "*"])
def test_not_found(path: str) -> None:
    """The sentence names the existing paths."""
    with pytest.raises(HttpError) as refused:
        table().find(Request("POST", path))
    assert (refused.value.status, refused.value.code) == (404, "not_found")
    assert refused.value.message == "This path does not exist. There is /here."


@pytest.mark.parametrize(("path", "allowed"), [("/here", "GET, POST, HEAD"), ("/socket", "")])
def test_wrong_method(path: str, allowed: str) -> None:
    """The answer names the allowed methods."""
    request = Request("DELETE", path)
    with pytest.raises(HttpError) as refused:
        table().find(request).handler(request)
    assert (refused.value.status, refused.value.code) == (405, "method_not_allowed")
    assert refused.value.headers == {"Allow": allowed}
    assert path in refused.value.message


def test_one_route_a_path() -> None:
    """A path can have only one route, because a second one would hide the first."""
    routes = table()
    with pytest.raises(ValueError, match="/here already has a route"):
        routes.add([("/here", Route())])


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("/models/{name*}", "/models/whisper-1", {"name": "whisper-1"}),
        ("/models/{name*}", "/models/some/large%20one", {"name": "some/large one"}),
        ("/models/{name*}", "/models/", None),
        ("/rooms/{room}/doors/{door}", "/rooms/a%2Fb/doors/2", {"room": "a/b", "door": "2"}),
        ("/rooms/{room}/doors/{door}", "/rooms/a/b/doors/2", None),
        ("/rooms/{room}/doors/{door}", "/rooms/a/doors/2/", None),
        ("/here", "/here", {}),
    ],
)
def test_patterns(pattern: str, path: str, values: dict[str, str] | None) -> None:
    """A name stands for one part of a path, or with a star for all that is left."""
    assert PathPattern(pattern).values(path) == values


def test_a_path_comes_before_a_pattern() -> None:
    """An exact path counts before patterns, and of these the first; the request decides between two routes."""
    first, second, third = Route(), Route(), Route()
    routes = Routes()
    routes.add([("/a/{name}", first), ("/a/{rest*}", lambda request: second if request.query else third)])
    routes.add([("/a/b", second)])
    paths = (("/a/b", ""), ("/a/c", ""), ("/a/c/d", "q"), ("/a/c/d", ""))
    asked = [Request("GET", path, query) for path, query in paths]
    assert [routes.find(request) for request in asked] == [second, first, second, third]
    with pytest.raises(ValueError, match="already has a route"):
        routes.add([("/a/{name}", Route())])


async def test_healthz(server: BridgeServer) -> None:
    """A process that answers is alive, ready or not."""
    for path in ("/healthz", "/health"):
        assert (await ask(server, path))[0::2] == (200, "alive\n")


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
async def test_the_service_lists_its_paths(server: BridgeServer, path: str) -> None:
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


async def test_the_service_answers_only_get(server: BridgeServer) -> None:
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


async def test_page(server: BridgeServer) -> None:
    """The page says how to connect, and loads nothing from other sites, which its policy forbids."""
    status, headers, text = await ask(server, "/?from=somewhere")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert "/v1/stream" in text
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
    assert not re.search(r"<script(?! type=\"module\" src=\"/[\w/.-]+\"></script>)|<style|style=|\son\w+=", text)


async def test_page_files(server: BridgeServer) -> None:
    """All files that the page loads are served."""
    _, _, text = await ask(server, "/")
    for path in re.findall(r"(?:href|src)=\"(/[^\"]+)\"", text):
        status, headers, _ = await ask(server, path)
        assert status == (503 if path == "/readyz" else 200), path
        assert headers["X-Content-Type-Options"] == "nosniff"


async def test_policy(server: BridgeServer) -> None:
    """A page may connect to its own service and use the microphone; nothing else, and nothing inline."""
    _, headers, _ = await ask(server, "/")
    place = urlsplit(server.url).netloc
    policy = dict(rule.split(maxsplit=1) for rule in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["worker-src"] == policy["img-src"] == "'self'"
    assert policy["connect-src"] == f"'self' ws://{place} wss://{place}"
    assert policy["media-src"] == "blob:"
    assert headers["Permissions-Policy"].startswith("microphone=(self)")


@pytest.mark.parametrize("host", ["evil.example *", "here; script-src *", "a,b", "[::1", ""])
async def test_policy_of_an_odd_host(server: BridgeServer, host: str) -> None:
    """An odd Host header cannot change the policy."""
    _, headers, _ = await ask(server, "/", Host=host)
    assert "connect-src 'self';" in headers["Content-Security-Policy"]


async def test_modules(server: BridgeServer) -> None:
    """Each file has the type that browsers require, and other sites may import modules."""
    files = [path.relative_to(WEB) for path in WEB.rglob("*.*") if path.suffix in (".js", ".css", ".svg")]
    assert {path.suffix for path in files} == {".js", ".css", ".svg"}
    for path in files:
        status, headers, text = await ask(server, f"/{path.as_posix()}")
        assert (status, text) == (200, (WEB / path).read_text()), path
        assert headers["Content-Type"].startswith(
            {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[path.suffix]
        )
        assert headers.get("Access-Control-Allow-Origin") == ("*" if path.suffix == ".js" else None)


async def test_unchanged_files(server: BridgeServer) -> None:
    """Browsers ask again each time, and are told if they have the file already."""
    _, headers, _ = await ask(server, "/style.css")
    assert headers["Cache-Control"] == "no-cache"
    status, again, text = await ask(server, "/style.css", **{"If-None-Match": headers["ETag"]})
    assert (status, text, again["ETag"]) == (304, "", headers["ETag"])
    assert (await ask(server, "/style.css", **{"If-None-Match": '"another"'}))[0] == 200


async def test_head(server: BridgeServer) -> None:
    """HEAD gives the length without the content."""
    status, headers, text = await ask(server, "/", "HEAD")
    assert (status, text) == (200, "")
    assert int(headers["Content-Length"]) > 500
