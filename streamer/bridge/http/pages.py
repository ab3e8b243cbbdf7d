"""What the port answers to plain HTTP: the page, the probes and the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.static_files import StaticFiles, protect
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.telemetry.metrics import Metrics
from streamer.wire.native import PATH


class Pages:
    """Answers every path but that of the websocket; `state` is what /readyz tells, with `ready` in it."""

    def __init__(self, metrics: Metrics, state: Callable[[], dict[str, Any]], access: AccessRules) -> None:
        self._metrics = metrics
        self._state = state
        self._access = access
        self._static = StaticFiles()

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
        return _complete(response, request)

    def _handshake(self, connection: ServerConnection, request: Request) -> Response | None:
        """Only who does not ask for a websocket can read the status of a refusal: the others are told over it."""
        if "Upgrade" not in request.headers:
            try:
                self._access.check(request, connection.remote_address[0])
            except Denied as denied:
                return _complete(_denied(denied), request)
            state = self._state()
            if state["ready"] and state["sequences"] >= state["sessions_limit"]:
                full = _text(HTTPStatus.SERVICE_UNAVAILABLE, "All sessions are taken; try again when one has ended.")
                full.headers["Retry-After"] = str(RETRY_S)
                return _complete(full, request)
        return None

    def _page(self, path: str, request: Request) -> Response:
        file = self._static.answer(path, request)
        if file is not None:
            return file
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


def _complete(response: Response, request: Request) -> Response:
    # One request a connection: the library does not read another.
    response.headers["Connection"] = "close"
    protect(response, request)
    return response


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
    return Response(status.value, status.phrase, headers, body)
