"""The routes of paths, and the answer for a path that does not exist."""

from __future__ import annotations

import pytest

from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response, text
from streamer.bridge.http.routes import Route, Routes


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
