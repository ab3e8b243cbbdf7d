"""The paths for dialects: who may open a websocket there, and how refusals are written before the upgrade."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.dialects.container_feed import ContainerFeed
from streamer.bridge.dialects.dialect_client import DialectClient
from streamer.bridge.dialects.successive import Successions
from streamer.bridge.http.messages import upgrade_required
from streamer.bridge.http.probes import refusal
from streamer.bridge.http.request import Request
from streamer.bridge.http.response import HttpError, Response, content
from streamer.bridge.http.routes import Endpoint, Route
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.uploads.decoder_places import DecoderPlaces
from streamer.bridge.upstreams.admission import Admission, Refused
from streamer.bridge.upstreams.models import Models
from streamer.wire.dialects.dialect import Dialect, Opening
from streamer.wire.errors import WireError
from streamer.wire.upload import JSON, Problem

log = Log("streamer.bridge")

# The most options of a query: more than exist, with all hotwords.
_MOST_OPTIONS: Final = 400


class Dialects:
    """All websockets of a port that speak a dialect."""

    def __init__(
        self,
        policy: PortPolicy,
        sessions: Sessions,
        admission: Admission,
        models: Models,
        places: DecoderPlaces,
        metrics: Metrics,
    ) -> None:
        """`places`: for the decoders of containers."""
        self._policy = policy
        self._sessions = sessions
        self._admission = admission
        self._models = models
        self._places = places
        self._metrics = metrics
        self._successions = Successions(sessions)

    def drain(self) -> None:
        """Close the websockets that have no session now, because the service shuts down."""
        self._successions.drain()

    def route(self, kind: type[Dialect], recordings: Route | None = None) -> Route:
        """Return the route for this dialect. `recordings`: the route whose methods the same path also has."""
        recordings = recordings or Route()
        methods = {"GET": self._explain, **recordings.methods}
        shared = self._policy.access.admits_page
        return Route(methods, partial(self._admit, kind), recordings.largest_body, _complain_as(kind), shared=shared)

    def opening(self, request: Request) -> Opening:
        """Describe a request to its dialect. Raise HttpError if it has too many options."""
        try:
            query = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="replace")
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request", "The query has too many options.") from None
        headers = {name.lower(): value for name, value in request.headers}
        return Opening(tuple(query), headers, self._models.languages, new_id(), now())

    async def _explain(self, request: Request) -> Response:
        """Answer a plain request at the path of a websocket."""
        try:
            self._policy.access.check(request)
        except Denied as denied:
            raise refusal(denied) from None
        raise upgrade_required()

    def _admit(self, kind: type[Dialect], request: Request) -> Endpoint:
        """Admit a session before the upgrade, or raise HttpError. The endpoint gives back what the session holds."""
        policy = self._policy
        try:
            admittance = policy.access.enter(request)
        except Denied as denied:
            self._count(denied.code, kind.protocol)
            raise refusal(denied) from None
        try:
            dialect = kind(self.opening(request))
            self._admission.check(dialect.slots)
            if dialect.successive:
                self._successions.check()
            if dialect.container and not self._places.take(admittance):
                raise Refused(self._places.full.code, self._places.full.message)
        except (WireError, Refused) as refused:
            admittance.leave()
            self._count(refused.code, kind.protocol)
            raise _error(Problem(refused.code, refused.message)) from None
        except BaseException:
            admittance.leave()
            raise
        handler = partial(self._converse, dialect, admittance)
        largest = dialect.largest_message or policy.largest_message
        return Endpoint(handler, largest, dialect.subprotocols, dialect.headers)

    async def _converse(self, dialect: Dialect, admittance: Admittance, websocket: WebSocket) -> None:
        if dialect.successive:
            try:
                await self._successions.converse(websocket, dialect, admittance)
            finally:
                admittance.leave()
            return
        try:
            limits = self._policy.uploads
            feed = ContainerFeed(limits, separate=dialect.separate) if dialect.container else None
            client = DialectClient(websocket, dialect, feed)
            key, protocol = admittance.caller.key, dialect.protocol
            driver = self._sessions.open(
                client, admittance, key, protocol=protocol, resumable=False, idle_s=dialect.idle_s
            )
            try:
                await driver.read(client)
            finally:
                await client.release()
        finally:
            self._places.give_back(admittance)

    def _count(self, code: str, protocol: str) -> None:
        self._metrics.refusals.labels(code).inc()
        self._metrics.protocol_refusals.labels(protocol).inc()
        log.info("refused", reason=code)


def new_id() -> str:
    """Make a random name for a request."""
    return str(uuid.uuid4())


def now() -> str:
    """Return the present time as text in the form of ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error(problem: Problem) -> HttpError:
    headers = {"Retry-After": str(problem.retry_s)} if problem.retry_s else {}
    return HttpError(HTTPStatus(problem.status), problem.code, problem.message, headers)


def _complain_as(kind: type[Dialect]) -> Callable[[HttpError], Response]:
    def complain(error: HttpError) -> Response:
        status, text = kind.refusal(error.code, error.message, error.status, new_id())
        return content(HTTPStatus(status), JSON, text.encode())

    return complain
