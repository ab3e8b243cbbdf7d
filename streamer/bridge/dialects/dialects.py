"""The paths for dialects: who may open a websocket there, and the sessions that follow one another behind it."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Final
from urllib.parse import parse_qsl

from streamer.base.codes import ErrorCode
from streamer.bridge.access.quotas import Admittance, Caller, Denied
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.dialects.dialect_client import CallClient, ContainerFeed, DialectClient, Socket
from streamer.bridge.http.messages import upgrade_required
from streamer.bridge.http.request import HttpError, Request, Response, as_json, content
from streamer.bridge.http.routes import Endpoint, Route, denial
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.bridge.session.endings import shutting_down
from streamer.bridge.session.messages import Numbered
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.uploads.decoding import DecoderPlaces
from streamer.bridge.upstreams.admission import Admission, Models, Refused
from streamer.wire.dialects.dialect import STOP, Aside, Dialect, Hangup, Opening, Reply, Step
from streamer.wire.dialects.openai_realtime import FLAT_SECRETS, PATH, SECRETS, OpenAIRealtime
from streamer.wire.dialects.openai_upload import with_bases
from streamer.wire.dialects.short_key_requests import LARGEST_REQUEST, OpenAISecretRequest
from streamer.wire.errors import CloseCode, WireError
from streamer.wire.upload import JSON, Problem, problem_of

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

    @property
    def idle_s(self) -> float:
        """The time for which a client may send nothing."""
        return self._sessions.idle_s

    def drain(self) -> None:
        """Close the websockets that have no session now, because the service shuts down."""
        self._successions.drain()

    def route(self, kind: type[Dialect], recordings: Route | None = None) -> Route:
        """Return the route for this dialect. `recordings`: the route whose methods the same path also has."""
        recordings = recordings or Route()
        methods = {"GET": self._explain, **recordings.methods}
        shared = self._policy.access.admits_page
        return Route(methods, partial(self._admit, kind), recordings.largest_body, complain_as(kind), shared=shared)

    def opening(self, request: Request) -> Opening:
        """Describe a request to its dialect. Raise HttpError if it has too many options."""
        try:
            query = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_OPTIONS, errors="replace")
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, ErrorCode.BAD_REQUEST, "The query has too many options.") from None
        headers = {name.lower(): value for name, value in request.headers}
        settings = self._policy.access.short_content(request)
        return Opening(tuple(query), headers, self._models.languages, new_id(), now(), settings, request.path)

    async def converse(self, kind: type[Dialect], socket: Socket, peer: str) -> None:
        """Open one session after another over a connection without a request, until it ends.

        Raise Denied or Refused if there may be no session. Such a client sends no key: its address is all that counts.
        """
        try:
            admittance = self._policy.access.quotas.enter(Caller(peer))
        except Denied as denied:
            self.count(denied.code, kind.protocol, "")
            raise
        try:
            self._successions.check()
            dialect = kind(Opening(models=self._models.languages))
            await self._successions.converse(socket, dialect, admittance)
        except Refused as refused:
            self.count(refused.code, kind.protocol, "")
            raise
        finally:
            admittance.leave()

    async def _explain(self, request: Request) -> Response:
        """Answer a plain request at the path of a websocket."""
        try:
            self._policy.access.check(request)
        except Denied as denied:
            raise denial(denied) from None
        raise upgrade_required()

    def _admit(self, kind: type[Dialect], request: Request) -> Endpoint:
        """Admit a session before the upgrade, or raise HttpError. The endpoint gives back what the session holds."""
        try:
            admittance = self.enter(request, kind.protocol, call=kind.telephone)
            dialect = self.prepare(lambda: kind(self.opening(request)), admittance, kind.protocol)
        except Denied as denied:
            raise denial(denied) from None
        except (WireError, Refused) as refused:
            raise http_error(Problem(refused.code, refused.message)) from None
        handler = partial(self.serve, dialect, admittance)
        largest = dialect.largest_message or self._policy.largest_message
        return Endpoint(handler, largest, dialect.subprotocols, dialect.headers)

    def enter(self, request: Request, protocol: str, *, call: bool = False) -> Admittance:
        """Admit the caller of a request, or raise Denied. Then prepare() comes, or the caller leaves.

        `call`: a signature may stand for a key.
        """
        access = self._policy.access
        try:
            return access.enter_call(request) if call else access.enter(request)
        except Denied as denied:
            self.count(denied.code, protocol, denied.key)
            raise

    def prepare(self, make: Callable[[], Dialect], admittance: Admittance, protocol: str) -> Dialect:
        """Make the dialect of a session for which there is room. Otherwise the caller leaves.

        Raise WireError if the dialect refuses the request, and Refused if there is no room. Then serve() comes.
        """
        try:
            dialect = make()
            self._admission.check(dialect.slots)
            if dialect.successive:
                self._successions.check()
            if dialect.container and not self._places.take(admittance, admittance.pseudonym):
                raise Refused(self._places.full.code, self._places.full.message)
        except (WireError, Refused) as refused:
            admittance.leave()
            self.count(refused.code, protocol, admittance.caller.key)
            raise
        except BaseException:
            admittance.leave()
            raise
        return dialect

    async def serve(self, dialect: Dialect, admittance: Admittance, websocket: Socket) -> None:
        """Serve the sessions of a dialect over its connection, and give back what they hold."""
        if not dialect.successive:
            await self._serve_only(dialect, admittance, websocket, dialect.greet())
            return
        try:
            talk = await self._successions.converse(websocket, dialect, admittance)
            if talk is not None:
                await self._serve_whole(talk, admittance.lend())
        finally:
            admittance.leave()

    async def _serve_whole(self, talk: Talk, admittance: Admittance) -> None:
        """Serve a dialect whose first message has said that there is only one session, perhaps of a container."""
        if talk.dialect.container and not self._places.take(admittance, admittance.pseudonym):
            full = self._places.full
            self.count(full.code, talk.dialect.protocol, admittance.caller.key)
            await talk.end(full.code, full.message, CloseCode.TRY_LATER, full.message)
            await talk.websocket.wait_until_closed()
            return
        await self._serve_only(talk.dialect, admittance, talk.websocket, talk.steps)

    async def _serve_only(
        self, dialect: Dialect, admittance: Admittance, websocket: Socket, steps: Iterable[Step]
    ) -> None:
        """Serve the only session of a dialect, which has a place if it has a container. `steps`: the first ones."""
        try:
            limits = self._policy.uploads
            feed = ContainerFeed(limits, separate=dialect.separate) if dialect.container else None
            call = dialect.telephone
            client = CallClient(websocket, dialect) if call else DialectClient(websocket, dialect, feed, steps)
            driver = self._sessions.open(
                client,
                admittance,
                admittance.caller.key,
                protocol=dialect.protocol,
                resumable=False,
                idle_s=dialect.idle_s,
                about=lambda: dialect.about,
            )
            client.pass_on = driver.tell_webhook
            try:
                await driver.read(client)
            finally:
                await client.release()
        finally:
            self._places.give_back(admittance)

    def count(self, code: ErrorCode, protocol: str, key: str) -> None:
        """Count a client that was refused."""
        self._metrics.refusals.labels(code).inc()
        self._metrics.protocol_refusals.labels(protocol).inc()
        self._metrics.usage_of(key).refusals += 1
        log.info("refused", key=key, reason=code)


def new_id() -> str:
    """Make a random name for a request."""
    return str(uuid.uuid4())


def now() -> str:
    """Return the present time as text in the form of ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def http_error(problem: Problem) -> HttpError:
    """Make the HTTP answer for a problem."""
    headers = {"Retry-After": str(problem.retry_s)} if problem.retry_s else {}
    return HttpError(HTTPStatus(problem.status), problem.code, problem.message, headers)


def complain_as(kind: type[Dialect]) -> Callable[[HttpError], Response]:
    """Return what makes the answer for an error in the format of this dialect."""

    def complain(error: HttpError) -> Response:
        status, text = kind.refusal(error.code, error.message, error.status, new_id())
        return content(HTTPStatus(status), JSON, text.encode())

    return complain


# Websockets with several sessions, one after another: a step `start` begins each of them, and STOP ends it.

# If a client sends nothing for this time, its session ends and gives its slot back; another one begins with its next
# audio. If the idle limit of sessions is shorter than twice this time, half of that limit counts.
REST_AFTER_S: Final = 30.0
_LAST_LOOK_S: Final = 0.1  # for what has come and was not read yet
# The websocket of a client that sends nothing for this time is closed.
LONGEST_REST_S: Final = 3600.0
# The most websockets that rest at a time; further ones are refused.
MOST_RESTING: Final = 256


class Talk:
    """One websocket for all of its sessions: the steps of its dialect, and texts for its client in the right order."""

    def __init__(self, websocket: Socket, dialect: Dialect) -> None:
        self.websocket = websocket
        self.dialect = dialect
        self.steps: Iterator[Step] = iter(dialect.greet())  # before the client's next message
        self._texts: deque[str] = deque()  # at most the texts of one step and of one message
        self._sending = asyncio.Lock()

    async def next(self, limit_s: float) -> str | bytes:
        """Wait for the next step for a session. Raise ConnectionEnded, or TimeoutError if the client sends nothing."""
        while True:
            for step in self.steps:
                if isinstance(step, (str, bytes)):
                    return step
                await self._do(step)
            message = await asyncio.wait_for(self.websocket.receive(), limit_s)
            self.steps = iter(self.dialect.receive(message))

    def rest(self) -> None:
        """End the present session, because its client sends nothing."""
        self.steps = iter(self.dialect.rest())

    async def say(self, texts: Iterable[str], deadline: float) -> None:
        """Send texts, in the order in which the dialect made them, even if two tasks call this at the same time."""
        self._texts.extend(texts)
        async with self._sending:
            while self._texts:
                await self.websocket.say(self._texts.popleft(), deadline)

    async def end(self, code: ErrorCode, message: str, close_code: int, reason: str) -> None:
        """Close a resting websocket, after a message that says why."""
        try:
            await self.say(self.dialect.fail(code, message), _deadline())
        except (NotRead, ConnectionEnded):
            self.websocket.abort()
        self.websocket.close(*self.dialect.close(close_code, reason))

    async def _do(self, step: Reply | Hangup | Aside) -> None:
        if isinstance(step, Aside):
            return
        if isinstance(step, Hangup):
            self.websocket.close(step.code, step.reason)
            await self.websocket.wait_until_closed()
            raise ConnectionEnded
        try:
            await self.say([step.text], _deadline())
        except NotRead:
            self.websocket.abort()
            raise ConnectionEnded from None


class SuccessiveClient(DialectClient):
    """The client of one of these sessions. When it is done, the websocket stays open."""

    def __init__(self, talk: Talk, start: str, rest_after_s: float) -> None:
        super().__init__(talk.websocket, talk.dialect, None, ())
        self.finished = False  # the session has ended in order, so another one may follow
        self._talk = talk
        self._start = start
        self._rest_after_s = rest_after_s
        self._stopped = False
        self._over = asyncio.Event()
        self._end: asyncio.Task[None] | None = None

    closing = property(lambda self: self._end is not None or self._websocket.closing)
    closed = property(lambda self: self._websocket.closed if self._end is None else self._end.done())
    agreed = property(lambda self: self.finished or self._websocket.agreed)
    goodbye = property(lambda self: self.finished or self._websocket.goodbye)

    async def receive(self) -> str | bytes:
        """Return `start`, and then each step up to STOP. Raise ConnectionEnded at the end."""
        if self._start:
            start, self._start = self._start, ""
            return start
        while not self._stopped:
            step = await self._next()
            if step is None:
                self._talk.rest()
                continue
            self._stopped = step == STOP
            return step
        await self._over.wait()
        raise ConnectionEnded

    async def _next(self) -> str | bytes | None:
        """Wait for the next step; None if the client sends nothing.

        A process that was stopped for a while finds that the time is over before it has read what came meanwhile. So
        there is a second look: a rest would cut the word that is being said.
        """
        for limit_s in (self._rest_after_s, _LAST_LOOK_S):
            with suppress(asyncio.TimeoutError):
                return await self._talk.next(limit_s)
        return None

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Send messages in the format of the client. Raise NotRead or ConnectionEnded if that fails."""
        deadline = _deadline()
        for message in messages:
            await self._talk.say(self._dialect.tell(message.message), deadline)
            on_sent(message)
        return True

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """End the session. The websocket is closed only if something went wrong."""
        if self._end is None and self._stopped and code == CloseCode.DONE:
            self.finished = True
            self._over.set()
            self._end = asyncio.create_task(_done())
        elif self._end is None:
            self._end = super().close(code, reason)
            self._end.add_done_callback(lambda _: self._over.set())
        return self._end

    async def drop(self, code: int, reason: str) -> None:
        """Close the websocket, even if something is being sent, unless the session has ended in order."""
        if not self.finished:
            await super().drop(code, reason)
            self._over.set()


class Successions:
    """All websockets of a port with several sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._resting: set[Talk] = set()
        self._ends: set[asyncio.Task[None]] = set()
        self._draining = False

    def check(self) -> None:
        """Raise Refused if too many websockets rest already."""
        if len(self._resting) >= MOST_RESTING:
            raise Refused(ErrorCode.BUSY, f"{MOST_RESTING} connections send no audio, the maximum; try again later.")

    async def converse(self, websocket: Socket, dialect: Dialect, admittance: Admittance) -> Talk | None:
        """Open one session after another, until the websocket ends.

        If the dialect learns from the first message that there is only one, return the talk before that.
        """
        talk = Talk(websocket, dialect)
        rest_after_s = min(dialect.rest_after_s or REST_AFTER_S, self._sessions.idle_s / 2)
        while True:
            start = await self._next_start(talk)
            if not dialect.successive:
                talk.steps = chain((start,), talk.steps)
                return talk
            client = SuccessiveClient(talk, start, rest_after_s)
            key, protocol = admittance.caller.key, dialect.protocol
            driver = self._sessions.open(client, admittance.lend(), key, protocol=protocol, resumable=False)
            await driver.read(client)
            if not client.finished:
                return None

    def drain(self) -> None:
        """Close the resting websockets, because the service shuts down. The others are closed after their sessions."""
        self._draining = True
        for talk in list(self._resting):
            self._dismiss(talk)

    def _dismiss(self, talk: Talk) -> None:
        ending = shutting_down()
        end = asyncio.create_task(talk.end(ending.error.code, ending.message, ending.close_code, ending.close.reason))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    async def _next_start(self, talk: Talk) -> str:
        """Wait for the start of the next session. Raise ConnectionEnded if none comes."""
        self._resting.add(talk)
        if self._draining:
            self._dismiss(talk)
        limit_s = talk.dialect.idle_s or LONGEST_REST_S
        try:
            step = await talk.next(limit_s)
        except asyncio.TimeoutError:
            reason = f"Nothing came for {limit_s:g} s; connect again when there is audio."
            await talk.end(ErrorCode.SESSION_EXPIRED, reason, CloseCode.DONE, reason)
            raise ConnectionEnded from None
        finally:
            self._resting.discard(talk)
        assert isinstance(step, str), "a session begins with its start"
        return step


def _deadline() -> float:
    return asyncio.get_running_loop().time() + SEND_LIMIT_S


async def _done() -> None:
    return


# The paths that OpenAI's clients use for realtime transcription.


class OpenAIRealtimePaths:
    """The websocket, and keys for a short time, which open it with settings of their own."""

    def __init__(self, dialects: Dialects, models: Models, access: AccessRules) -> None:
        self._dialects = dialects
        self._models = models
        self._access = access

    def routes(self) -> Iterator[tuple[str, Route]]:
        """Yield the paths with their routes."""
        websocket = self._dialects.route(OpenAIRealtime)
        for path in with_bases(PATH):
            yield path, websocket
        for secrets in (SECRETS, *FLAT_SECRETS):
            make = partial(self._make, secrets in FLAT_SECRETS)
            for path in with_bases(secrets):
                yield path, Route({"POST": make}, None, LARGEST_REQUEST, websocket.complain)

    async def _make(self, flat: bool, request: Request) -> Response:
        try:
            holder = self._access.holder(request)
            wanted = OpenAISecretRequest(await request.content(), self._models.languages, flat=flat)
            secret, expires_at = self._access.make_short_key(holder, wanted.seconds, wanted.content)
        except Denied as denied:
            raise denial(denied) from None
        except WireError as error:
            raise http_error(problem_of(error)) from None
        return as_json(HTTPStatus.OK, wanted.answer(secret, expires_at, f"sess_{new_id()}"))
