"""The paths for recordings, with those of OpenAI's clients: who may upload, how many at a time, and the description."""

from __future__ import annotations

import html
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from streamer import __version__
from streamer.base.codes import ErrorCode, QuietEnding, Reason
from streamer.base.text import either
from streamer.bridge.access.quotas import Denied, UploadLimits
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.http.request import HttpError, Request, Response, as_json
from streamer.bridge.http.routes import Handler, PathPattern, Route, denial
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import HTTP, Metrics
from streamer.bridge.triton.link import origin
from streamer.bridge.uploads.decoding import DecoderPlaces
from streamer.bridge.uploads.fetching import Fetcher
from streamer.bridge.uploads.upload import SHUTTING_DOWN, Stopped, Surroundings, Upload
from streamer.bridge.upstreams.admission import Admission, Models, Refused
from streamer.wire.dialects import openai_upload
from streamer.wire.dialects.openai_upload import OpenAIUpload, deployed, with_bases
from streamer.wire.errors import WireError
from streamer.wire.openapi import document
from streamer.wire.upload import JSON, Problem, UploadFormat, problem_of

log = Log("streamer.bridge")

# The most options of a query: more than exist, with all hotwords.
_MOST_OPTIONS = 300


class Uploads:
    """All uploads of a port."""

    def __init__(
        self, access: AccessRules, sessions: Sessions, admission: Admission, limits: UploadLimits, metrics: Metrics
    ) -> None:
        self.places = DecoderPlaces(limits.most, access.others)
        self._access = access
        self._admission = admission
        self._limits = limits
        self._metrics = metrics
        self._around = Surroundings(sessions, Fetcher(limits), limits, metrics.failures(HTTP))
        self._running: set[Upload] = set()
        self._draining = False

    def route(self, make: Callable[[], UploadFormat]) -> Route:
        """Return the route for recordings in this format."""
        return Route(
            {"POST": partial(self._answer, make)},
            largest_body=self._limits.largest,
            complain=lambda error: _error(make(), Problem(error.code, error.message), error.status),
            shared=self._access.admits_page,
        )

    def drain(self) -> None:
        """End the uploads that have no session yet, and take no more, because the service shuts down."""
        self._draining = True
        for upload in list(self._running):
            upload.drain()

    async def _answer(self, make: Callable[[], UploadFormat], request: Request) -> Response:
        """Answer one request."""
        try:
            admittance = self._access.enter(request)
        except Denied as denied:
            self._count(denied.code)
            self._metrics.usage_of(denied.key).refusals += 1
            raise denial(denied) from None
        format = make()
        upload = Upload(request, format, admittance, self._around)
        self._running.add(upload)
        self._metrics.uploads.set(len(self._running))
        release = self._release_once(upload)
        try:
            self._check_room(upload, admittance.caller.key)
            _read_query(format, request.query)
            response = await upload.respond()
        except Stopped as stopped:
            upload.ended_by = stopped.problem.code
            await release()
            return _error(format, stopped.problem)
        except WireError as error:
            upload.ended_by = error.code
            await release()
            return _error(format, problem_of(error))
        except BaseException as error:
            upload.ended_by = error.code if isinstance(error, HttpError) else upload.ended_by
            await release()
            raise
        response.release = release
        return response

    def _release_once(self, upload: Upload) -> Callable[[], Awaitable[None]]:
        async def release() -> None:
            self._running.discard(upload)
            self.places.give_back(upload)
            self._metrics.uploads.set(len(self._running))
            reason = upload.ended_by or QuietEnding.VANISHED
            self._count(reason)
            self._metrics.upload_bytes.inc(upload.size)
            log.info("upload ended", reason=reason, bytes=upload.size)
            logs.session.set("")
            origin.set("")
            await upload.release()

        return release

    def _check_room(self, upload: Upload, key: str) -> None:
        """Raise Stopped if there is no room now. The session takes its slot later, when the recording has begun."""
        problem = None
        if self._draining:
            problem = SHUTTING_DOWN
        elif not self.places.take(upload, upload.caller, upload):
            problem = self.places.full
        else:
            try:
                self._admission.check()
            except Refused as refused:
                problem = Problem(refused.code, refused.message)
        if problem is not None:
            self._metrics.usage_of(key).refusals += 1
            raise Stopped(problem)

    def _count(self, reason: Reason) -> None:
        self._metrics.uploads_ended.labels(reason).inc()


def _read_query(format: UploadFormat, query: str) -> None:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="replace")
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, "The query has too many options.") from None
    format.query(pairs)


def _error(format: UploadFormat, problem: Problem, status: HTTPStatus | None = None) -> Response:
    usual_status, text = format.refusal(problem)
    headers = {"Content-Type": JSON, "Cache-Control": "no-store"}
    if problem.retry_s:
        headers["Retry-After"] = str(problem.retry_s)
    return Response(status or HTTPStatus(usual_status), headers, text.encode())


# The paths that OpenAI's clients use for recordings.

_DEPLOYED: Final = PathPattern(deployed(openai_upload.PATH))


class OpenAIPaths:
    """Transcriptions, translations, and models."""

    def __init__(self, uploads: Uploads, models: Models, access: AccessRules) -> None:
        self._models = models
        self._access = access
        self._recordings = uploads.route(lambda: OpenAIUpload(models.languages))
        self._translations = uploads.route(lambda: OpenAIUpload(models.languages, translates=True))

    def recordings(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths for recordings with their routes."""
        for path in with_bases(openai_upload.PATH):
            yield path, self._recordings
        yield deployed(openai_upload.PATH), replace(self._recordings, methods={"POST": self._deployed})
        translate = partial(self._translate, self._translations.methods["POST"])
        for path in (*with_bases(openai_upload.TRANSLATIONS), deployed(openai_upload.TRANSLATIONS)):
            yield path, replace(self._translations, methods={"POST": translate})

    def models(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths that name the models, with their routes."""
        bodiless = replace(self._recordings, largest_body=0)
        for path in with_bases(openai_upload.MODELS):
            yield path, replace(bodiless, methods={"GET": self._list})
            pattern = f"{path}/{{name*}}"
            yield pattern, replace(bodiless, methods={"GET": partial(self._show, PathPattern(pattern))})

    async def _deployed(self, request: Request) -> Response:
        """Answer a client of Azure: the model is the last part of the path, unless a field says otherwise."""
        model = _DEPLOYED.values(request.path) or {}
        if model.get("model") in self._models.names:
            request = replace(request, query="&".join(filter(None, (request.query, urlencode(model)))))
        return await self._recordings.methods["POST"](request)

    async def _translate(self, answer: Handler, request: Request) -> Response:
        """Answer with a translation. It is refused at once if no model has another language than English."""
        self._admit(request)
        if any(languages != () for languages in self._models.languages.values()):
            return await answer(request)
        problem = openai_upload.no_translations()
        raise HttpError(HTTPStatus(problem.status), problem.code, problem.message)

    async def _list(self, request: Request) -> Response:
        self._admit_reader(request)
        return as_json(HTTPStatus.OK, openai_upload.models(self._models.names))

    async def _show(self, pattern: PathPattern, request: Request) -> Response:
        self._admit_reader(request)
        return as_json(HTTPStatus.OK, openai_upload.model((pattern.values(request.path) or {})["name"]))

    def _admit_reader(self, request: Request) -> None:
        try:
            self._access.check_host(request)
        except Denied as denied:
            raise denial(denied) from None
        self._admit(request)

    def _admit(self, request: Request) -> None:
        try:
            self._access.caller(request)
        except Denied as denied:
            raise denial(denied) from None


# The description of the HTTP interface: at /openapi.json, and as a page at /docs that needs no other site.

OPENAPI: Final = "/openapi.json"
PAGE: Final = "/docs"
_Row = tuple[str, Mapping[str, Any], str]  # a name, its schema and its meaning
_HTML: Final = "text/html; charset=utf-8"


class Documentation:
    """The description in both forms, made once."""

    def __init__(self, limits: UploadLimits) -> None:
        self._description = document(__version__, limits.largest, limits.longest_s)

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        text = json.dumps(self._description, indent=2) + "\n"
        yield OPENAPI, Route({"GET": _handler(JSON, text)})
        yield PAGE, Route({"GET": _handler(_HTML, page(self._description))})


def page(description: Mapping[str, Any]) -> str:
    """Write the description as a page."""
    info = description["info"]
    parts = [f"<h1>{_safe(info['title'])} {_safe(info['version'])}</h1>", f"<p>{_safe(info['description'])}</p>"]
    parts.append(f'<p>For programs: <a href="{OPENAPI}">{OPENAPI}</a>. The page for speaking: <a href="/">/</a>.</p>')
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_safe(path)}</code></h2><p>{_safe(operation['summary'])}</p>")
            parts += _operation(operation)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = '<link rel="stylesheet" href="/docs.css">'
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<title>Streamer: HTTP interface</title>{style}</head>\n'
        f"<body><main>\n{body}\n</main></body>\n</html>\n"
    )


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    if "description" in operation:
        yield f"<p>{_safe(operation['description'])}</p>"
    rows = [(each["name"], each["schema"], each["description"]) for each in operation.get("parameters", ())]
    if rows:
        yield "<h3>Query</h3>" + _table(rows)
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        yield f"<h3>Body</h3><p>{', '.join(f'<code>{_safe(kind)}</code>' for kind in content)}</p>"
    if not rows:
        for kind in content.values():
            fields = kind["schema"].get("properties", {}).items()
            yield _table([(name, schema, schema.get("description", "")) for name, schema in fields])
    answers: list[_Row] = [(status, {}, answer["description"]) for status, answer in operation["responses"].items()]
    yield "<h3>Answers</h3>" + _table(answers)


def _table(rows: Sequence[_Row]) -> str:
    lines = [
        f"<tr><td><code>{_safe(name)}</code></td><td>{_safe(_kind(schema))}</td><td>{_safe(meaning)}</td></tr>"
        for name, schema, meaning in rows
    ]
    return "<table>" + "".join(lines) + "</table>"


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return either(schema["enum"])
    if "minimum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    if "items" in schema:
        return f"several: {_kind(schema['items'])}"
    return {"boolean": "true or false", "integer": "whole number", "string": "text"}.get(str(schema.get("type")), "")


def _safe(text: str) -> str:
    return html.escape(text)


def _handler(kind: str, text: str) -> Handler:
    async def serve(_: Request) -> Response:
        """Answer with this text."""
        return Response(HTTPStatus.OK, {"Content-Type": kind, "Cache-Control": "no-cache"}, text.encode())

    return serve
