"""The paths that OpenAI's clients use for realtime transcription."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.dialects.dialects import Dialects
from streamer.bridge.http.probes import refusal
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response
from streamer.bridge.http.routes import Route
from streamer.wire.dialects.openai_realtime.realtime import KEY_PATHS, PATH, OpenAIRealtime, no_short_keys

_LARGEST_BODY: Final = 64 * 1024


class OpenAIRealtimePaths:
    """The websocket, and the refusal of short-lived keys, which OpenAI's clients may ask for."""

    def __init__(self, dialects: Dialects, access: AccessRules) -> None:
        self._dialects = dialects
        self._access = access

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        websocket = self._dialects.route(OpenAIRealtime)
        yield PATH, websocket
        for path in KEY_PATHS:
            yield path, Route({"POST": self._refuse}, None, _LARGEST_BODY, websocket.complain)

    async def _refuse(self, request: Request) -> Response:
        try:
            self._access.caller(request)
        except Denied as denied:
            raise refusal(denied) from None
        problem = no_short_keys()
        raise HttpError(HTTPStatus(problem.status), problem.code, problem.message)
