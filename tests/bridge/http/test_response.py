"""How errors are sent: as JSON for programs, as plain text for browsers that display it."""

from __future__ import annotations

import json
from http import HTTPStatus

import pytest

from streamer.bridge.http.request import Headers, Request
from streamer.bridge.http.response import HttpError

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
    error = HttpError(HTTPStatus.UNAUTHORIZED, "unauthorized", "A key is needed.", {"WWW-Authenticate": "Bearer"})
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
