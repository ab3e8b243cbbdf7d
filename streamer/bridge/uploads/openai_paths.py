"""The paths that OpenAI's clients use for recordings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.probes import refusal
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response, as_json
from streamer.bridge.http.routes import Route
from streamer.bridge.uploads.uploads import Uploads
from streamer.bridge.upstreams.models import Models
from streamer.wire import openai_upload
from streamer.wire.openai_upload import OpenAIUpload


class OpenAIPaths:
    """Transcriptions, models, and the refusal of translations."""

    def __init__(self, uploads: Uploads, models: Models, access: AccessRules) -> None:
        self._uploads = uploads
        self._models = models
        self._access = access

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        names = self._models.names
        recordings = self._uploads.route(lambda: OpenAIUpload(self._models.languages))
        yield openai_upload.PATH, recordings
        # The route allows a body, so that the answer is the refusal and not that the body is too large.
        yield openai_upload.TRANSLATIONS, replace(recordings, methods={"POST": self._refuse})
        bodiless = replace(recordings, largest_body=0)
        yield openai_upload.MODELS, replace(bodiless, methods={"GET": self._list})
        for name in names:
            show = partial(self._show, name)
            yield f"{openai_upload.MODELS}/{quote(name, safe='')}", replace(bodiless, methods={"GET": show})

    async def _refuse(self, request: Request) -> Response:
        self._admit(request)
        problem = openai_upload.no_translations()
        raise HttpError(HTTPStatus(problem.status), problem.code, problem.message)

    async def _list(self, request: Request) -> Response:
        self._admit(request)
        return as_json(HTTPStatus.OK, openai_upload.models(self._models.names))

    async def _show(self, name: str, request: Request) -> Response:
        self._admit(request)
        return as_json(HTTPStatus.OK, openai_upload.model(name))

    def _admit(self, request: Request) -> None:
        try:
            self._access.caller(request)
        except Denied as denied:
            raise refusal(denied) from None
