"""The page and its files, requested from a running port."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from streamer.bridge.http.static_files import WEB
from streamer.bridge.server import BridgeServer
from tests.bridge.http.asking import ask


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
