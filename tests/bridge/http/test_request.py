"""The parts of a request, and errors as answers: JSON for programs, plain text for browsers."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.base.codes import ErrorCode
from streamer.bridge.http.request import Headers, HttpError, Request, split_target


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


SHOWN = Headers([("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")])


@pytest.mark.parametrize(
    ("request_", "as_text"),
    [
        (None, False),
        (Request("GET", "/"), False),
        (Request("GET", "/", headers=Headers([("Accept", "*/*")])), False),
        (Request("GET", "/", headers=SHOWN), True),
        (Request("HEAD", "/", headers=SHOWN), True),
        (Request("POST", "/", headers=SHOWN), False),
    ],
)
def test_errors(request_: Request | None, as_text: bool) -> None:
    """Both forms have the same sentence and the error's headers."""
    error = HttpError(
        HTTPStatus.UNAUTHORIZED, ErrorCode.UNAUTHORIZED, "A key is needed.", {"WWW-Authenticate": "Bearer"}
    )
    response = error.response(request_)
    assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert response.headers["Cache-Control"] == "no-store"
    assert isinstance(response.body, bytes)
    if as_text:
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.body == b"A key is needed.\n"
    else:
        assert response.headers["Content-Type"] == "application/json"
        assert json.loads(response.body) == {"error": {"code": "unauthorized", "message": "A key is needed."}}
