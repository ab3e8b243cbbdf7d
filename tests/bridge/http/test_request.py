"""The parts of a request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.bridge.http.request import Headers, Request, split_target


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", "/", ""),
        ("/a/b?c=d&e=?f", "/a/b", "c=d&e=?f"),
        ("/a?", "/a", ""),
        ("//[", "//[", ""),
        ("//healthz", "//healthz", ""),
        ("/%2e%2e/a", "/%2e%2e/a", ""),
        ("http://example.org/a?b", "/a", "b"),
        ("HTTPS://example.org", "/", ""),
        ("http://example.org?a=/b", "/", "a=/b"),
        ("*", "*", ""),
        ("example.org:443", "example.org:443", ""),
        ("ftp://example.org/a", "ftp://example.org/a", ""),
    ],
)
def test_targets(target: str, path: str, query: str) -> None:
    """Path and query are as they were sent, also if a proxy sends a whole URL."""
    assert split_target(target) == (path, query)


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_any_target(target: str) -> None:
    """Any target can be split without an error."""
    split_target(target)


def test_headers() -> None:
    """Names are not case-sensitive, and a name may occur twice."""
    headers = Headers([("Accept", "a"), ("accept", "b"), ("Host", "")])
    assert headers.all("ACCEPT") == ["a", "b"]
    assert (headers.get("accept"), headers.get("Via"), headers.get("Via", "none")) == ("a", "", "none")
    assert "host" in headers
    assert "Via" not in headers
    assert next(iter(headers)) == ("Accept", "a")


async def test_a_request_without_a_body() -> None:
    """A request without a body can be read; its body is empty."""
    assert await Request("GET", "/").content() == b""
