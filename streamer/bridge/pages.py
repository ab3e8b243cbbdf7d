"""What the port answers to plain HTTP: the page, the probes and the metrics."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from streamer.bridge.access import Access
from streamer.bridge.allowance import Denied
from streamer.bridge.metrics import Metrics
from streamer.bridge.session import RETRY_S
from streamer.wire.native import PATH

WEB = Path(__file__).resolve().parent.parent / "web"
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Pages:
    """Answers every path but that of the websocket; `state` is what /readyz tells, with `ready` in it."""

    def __init__(self, metrics: Metrics, state: Callable[[], dict[str, Any]], access: Access) -> None:
        self._metrics = metrics
        self._state = state
        self._access = access
        self._files: dict[str, tuple[str, bytes]] = {}
        for file in WEB.iterdir():
            kind = mimetypes.guess_type(file.name)[0]
            if file.is_file() and kind is not None:
                self._files[f"/{file.name}"] = (f"{kind}; charset=utf-8", file.read_bytes())
        self._files["/"] = self._files.pop("/index.html")

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """The response to a request; None leaves it to the websocket's handshake."""
        path = urlsplit(request.path).path
        if path == PATH:
            return self._handshake(connection, request)
        # Before version 17 (on Python 3.10) the library itself hangs up on all but GET.
        method = getattr(request, "method", "GET")
        if method not in ("GET", "HEAD"):
            response = _text(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} can only be read: use GET.")
            response.headers["Allow"] = "GET, HEAD"
        else:
            response = self._page(path, request)
        if method == "HEAD":
            response.body = b""
        return response

    def _handshake(self, connection: ServerConnection, request: Request) -> Response | None:
        """Only who does not ask for a websocket can read the status of a refusal: the others are told over it."""
        if "Upgrade" not in request.headers:
            try:
                self._access.check(request, connection.remote_address[0])
            except Denied as denied:
                return _denied(denied)
        return None

    def _page(self, path: str, request: Request) -> Response:
        if path in self._files:
            return _response(HTTPStatus.OK, *self._files[path])
        if path == "/healthz":
            return _text(HTTPStatus.OK, "alive")
        if path == "/readyz":
            state = self._state()
            status = HTTPStatus.OK if state["ready"] else HTTPStatus.SERVICE_UNAVAILABLE
            response = _response(status, "application/json", json.dumps(state).encode() + b"\n")
            if not state["ready"]:
                response.headers["Retry-After"] = str(RETRY_S)
            return response
        if path == "/metrics":
            try:
                self._access.check_metrics(request)
            except Denied as denied:
                return _denied(denied)
            return _response(HTTPStatus.OK, self._metrics.content_type, self._metrics.exposition())
        return _text(
            HTTPStatus.NOT_FOUND,
            f"Nothing is here. There are / (a page), {PATH} (the websocket), /healthz, /readyz and /metrics.",
        )


def _denied(denied: Denied) -> Response:
    response = _text(denied.status, denied.message)
    if denied.retry_s:
        response.headers["Retry-After"] = str(denied.retry_s)
    elif denied.status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _text(status: HTTPStatus, sentence: str) -> Response:
    return _response(status, "text/plain; charset=utf-8", sentence.encode() + b"\n")


def _response(status: HTTPStatus, kind: str, body: bytes) -> Response:
    headers = Headers({"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"})
    # One request a connection: the library does not read another.
    headers["Connection"] = "close"
    headers.update(SECURITY)
    return Response(status.value, status.phrase, headers, body)
