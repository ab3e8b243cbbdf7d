"""The paths that Deepgram's clients use besides those for speech: models, projects, and tokens for a short time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.dialects.dialects import complain_as, http_error
from streamer.bridge.http.request import HttpError, Request, Response, as_json
from streamer.bridge.http.routes import Choice, PathPattern, Route, denial
from streamer.bridge.upstreams.admission import Models
from streamer.wire.dialects.deepgram import DeepgramLive
from streamer.wire.dialects.deepgram_models import MODELS, PROJECT, PROJECT_ID, PROJECTS, model, models, projects
from streamer.wire.dialects.short_key_requests import GRANT_PATH, LARGEST_REQUEST, DeepgramGrantRequest
from streamer.wire.errors import WireError
from streamer.wire.upload import problem_of

_SCHEME: Final = "token "  # of Deepgram's clients in the header Authorization; OpenAI's have another one
_MODEL: Final = "/{model*}"


class DeepgramPaths:
    """These paths, with errors in Deepgram's form."""

    def __init__(self, models: Models, access: AccessRules) -> None:
        self._models = models
        self._access = access
        self._route = Route(complain=complain_as(DeepgramLive), shared=access.admits_page)

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths that no other service has, with their routes."""
        grant = replace(self._route, methods={"POST": self._grant}, largest_body=LARGEST_REQUEST)
        yield GRANT_PATH, grant
        project = f"{PROJECTS}/{PROJECT_ID}"
        yield PROJECTS, self._reading(lambda _: projects())
        yield project, self._reading(lambda _: PROJECT)
        yield f"{project}/models", self._reading(self._list)
        yield f"{project}/models{_MODEL}", self._reading(partial(self._show, PathPattern(f"{project}/models{_MODEL}")))
        yield f"{PROJECTS}/{{path*}}", self._reading(_missing)

    def beside(self, path: str, route: Route) -> Route | Choice:
        """Return the route of a path of OpenAI's, which Deepgram's clients may use too: their key decides."""
        if path == MODELS:
            own = self._reading(self._list)
        elif path.startswith(f"{MODELS}/"):
            own = self._reading(partial(self._show, PathPattern(f"{MODELS}{_MODEL}")))
        else:
            return route
        return lambda request: own if _is_deepgrams(request) else route

    def _reading(self, content: Callable[[Request], JsonObject]) -> Route:
        """Return the route for reading what `content` returns."""

        async def answer(request: Request) -> Response:
            try:
                self._access.check_host(request)
                self._access.caller(request)
            except Denied as denied:
                raise denial(denied) from None
            await request.content()  # older clients send one, with nothing in it
            return as_json(HTTPStatus.OK, content(request))

        return replace(self._route, methods={"GET": answer}, largest_body=LARGEST_REQUEST)

    def _list(self, _: Request) -> JsonObject:
        return models(self._models.languages)

    def _show(self, pattern: PathPattern, request: Request) -> JsonObject:
        wanted = (pattern.values(request.path) or {})["model"]
        if (content := model(wanted, self._models.languages)) is None:
            names = ", ".join(self._models.names)
            why = f"There is no such model. The models are {names}; any other name in a request means the first one."
            raise HttpError(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, why)
        return content

    async def _grant(self, request: Request) -> Response:
        """Make a token."""
        try:
            holder = self._access.holder(request)
            wanted = DeepgramGrantRequest(await request.content())
            token, _ = self._access.make_short_key(holder, wanted.seconds)
        except Denied as denied:
            raise denial(denied) from None
        except WireError as error:
            raise http_error(problem_of(error)) from None
        return as_json(HTTPStatus.OK, wanted.answer(token))


def _is_deepgrams(request: Request) -> bool:
    return request.headers.get("Authorization").lower().startswith(_SCHEME)


def _missing(_: Request) -> JsonObject:
    why = f"This is not there: the only project is {PROJECT_ID}, which has only models. `streamer key` manages keys."
    raise HttpError(HTTPStatus.NOT_FOUND, ErrorCode.NOT_FOUND, why)
