"""The paths for recordings: who may upload one, how many at a time, and how refusals are written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from urllib.parse import parse_qsl

from streamer.bridge.access.quotas import Denied
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.access.upload_limits import UploadLimits
from streamer.bridge.http.probes import refusal
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response
from streamer.bridge.http.routes import Route
from streamer.bridge.session.endings import VANISHED
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import HTTP, Metrics
from streamer.bridge.uploads.decoder_places import DecoderPlaces
from streamer.bridge.uploads.upload import SHUTTING_DOWN, Stopped, Surroundings, Upload
from streamer.bridge.upstreams.admission import Admission, Refused
from streamer.triton.link import origin
from streamer.wire.errors import WireError
from streamer.wire.upload import JSON, Problem, UploadFormat, problem_of

log = Log("streamer.bridge")

# The most options of a query: more than exist, with all hotwords.
_MOST_OPTIONS = 300


class Uploads:
    """All uploads of a port."""

    def __init__(
        self, access: AccessRules, sessions: Sessions, admission: Admission, limits: UploadLimits, metrics: Metrics
    ) -> None:
        self.places = DecoderPlaces(limits.most)
        self._access = access
        self._admission = admission
        self._limits = limits
        self._metrics = metrics
        self._around = Surroundings(sessions, limits, metrics.failures(HTTP))
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
            raise refusal(denied) from None
        format = make()
        upload = Upload(request, format, admittance, self._around)
        self._running.add(upload)
        self._metrics.uploads.set(len(self._running))
        release = self._release_once(upload)
        try:
            self._check_room(upload)
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
            reason = upload.ended_by or VANISHED
            self._count(reason)
            self._metrics.upload_bytes.inc(upload.size)
            log.info("upload ended", reason=reason, bytes=upload.size)
            logs.session.set("")
            origin.set("")
            await upload.release()

        return release

    def _check_room(self, upload: Upload) -> None:
        """Raise Stopped if there is no room now. The session takes its slot later, when the recording has begun."""
        if self._draining:
            raise Stopped(SHUTTING_DOWN)
        if not self.places.take(upload):
            raise Stopped(self.places.full)
        try:
            self._admission.check()
        except Refused as refused:
            raise Stopped(Problem(refused.code, refused.message)) from None

    def _count(self, reason: str) -> None:
        self._metrics.uploads_ended.labels(reason).inc()


def _read_query(format: UploadFormat, query: str) -> None:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="replace")
    except ValueError:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request", "The query has too many options.") from None
    format.query(pairs)


def _error(format: UploadFormat, problem: Problem, status: HTTPStatus | None = None) -> Response:
    usual_status, text = format.refusal(problem)
    headers = {"Content-Type": JSON, "Cache-Control": "no-store"}
    if problem.retry_s:
        headers["Retry-After"] = str(problem.retry_s)
    return Response(status or HTTPStatus(usual_status), headers, text.encode())
