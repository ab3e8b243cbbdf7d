"""Answers questions about the service: whether it is alive and ready, its metrics, and whether a key is valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.messages import upgrade_required
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response, as_json, content, text
from streamer.bridge.http.routes import Route
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.telemetry.metrics import Metrics


class Probes:
    """The paths for probes. `state` returns the content of /readyz, including `ready`."""

    def __init__(self, metrics: Metrics, state: Callable[[], dict[str, Any]], access: AccessRules) -> None:
        self._metrics = metrics
        self._state = state
        self._access = access

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        yield "/healthz", Route({"GET": self._alive})
        yield "/readyz", Route({"GET": self._ready})
        yield "/metrics", Route({"GET": self._figures})

    async def key_check(self, request: Request) -> Response:
        """Answer a plain request at the websocket's path: say whether a websocket with this key would get a session."""
        try:
            self._access.check(request)
        except Denied as denied:
            raise refusal(denied) from None
        state = self._state()
        if state["ready"] and state["sequences"] >= state["sessions_limit"]:
            why = "All sessions are taken; try again when one has ended."
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "full", why, {"Retry-After": str(RETRY_S)})
        raise upgrade_required()

    async def _alive(self, _: Request) -> Response:
        return text(HTTPStatus.OK, "alive")

    async def _ready(self, _: Request) -> Response:
        state = self._state()
        response = as_json(HTTPStatus.OK if state["ready"] else HTTPStatus.SERVICE_UNAVAILABLE, state)
        if not state["ready"]:
            response.headers["Retry-After"] = str(RETRY_S)
        return response

    async def _figures(self, request: Request) -> Response:
        try:
            self._access.check_metrics(request)
        except Denied as denied:
            raise refusal(denied) from None
        return content(HTTPStatus.OK, self._metrics.content_type, self._metrics.exposition())


def refusal(denied: Denied) -> HttpError:
    """Make the HTTP answer for a refusal."""
    headers = {}
    if denied.retry_s:
        headers["Retry-After"] = str(denied.retry_s)
    elif denied.status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return HttpError(denied.status, denied.code, denied.message, headers)
