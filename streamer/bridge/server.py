"""The service's port: gives websockets to drivers, answers plain HTTP, and ends everything in bounded time."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from collections.abc import AsyncGenerator, Coroutine
from typing import Any
from urllib.parse import parse_qs

from streamer import __version__
from streamer.base.address import PATH
from streamer.base.codes import ErrorCode
from streamer.base.events import Error
from streamer.base.json_types import JsonObject
from streamer.base.machine import give_back_freed_memory
from streamer.bridge.access.quotas import Denied, Fetch
from streamer.bridge.access.rules import SUBPROTOCOL, PortPolicy
from streamer.bridge.administration import KIND as ADMIN
from streamer.bridge.administration import Administration
from streamer.bridge.captions import KIND as CAPTIONS
from streamer.bridge.captions import Captions
from streamer.bridge.dialects.deepgram_paths import DeepgramPaths
from streamer.bridge.dialects.dialects import Dialects, OpenAIRealtimePaths, new_id, now
from streamer.bridge.dialects.wyoming_port import WyomingPort
from streamer.bridge.grpc.port import GrpcPort
from streamer.bridge.http.channel import ConnectionCounts
from streamer.bridge.http.connection import Terms
from streamer.bridge.http.listener import Listener
from streamer.bridge.http.routes import Endpoint, Probes, Route, Routes, ServiceState, StaticFiles, protection
from streamer.bridge.http.websocket import CLOSE_LIMIT_S, ConnectionEnded, NotRead, WebSocket
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import HTTP, Metrics
from streamer.bridge.uploads.uploads import Documentation, OpenAIPaths, Uploads
from streamer.bridge.upstreams.admission import Admission, Models
from streamer.bridge.webhooks import Webhooks
from streamer.bridge.workers.joined_metrics import WORKER
from streamer.bridge.workers.neighbours import Reply
from streamer.bridge.workers.passing import KIND as RESUME
from streamer.bridge.workers.passing import PROBLEM, request_of, rest_of
from streamer.bridge.workers.worker import EXPOSITION, Worker
from streamer.wire import native_upload
from streamer.wire.dialects import deepgram
from streamer.wire.dialects.deepgram import DeepgramRecorded
from streamer.wire.dialects.formats import FORMATS, NATIVE
from streamer.wire.events import render

log = Log("streamer.bridge")

MOST_TURNED_AWAY = 64  # refused connections that are waiting for the reason; further ones are cut off
# All limits of a shutdown together, Triton's own included, stay below the 30 s that supervisors usually wait.
FINALS_LIMIT_S = 8.0
CUT_LIMIT_S = 2.0
WEBHOOKS_LIMIT_S = 1.0  # at least, for the last events
HURRY_LIMIT_S = 0.5  # replaces these limits after hurry()


class PortError(Exception):
    """The service cannot listen at the address. The message is a sentence for the user."""


class BridgeServer:
    """Listens on one port. `admission` admits sessions once it is open, and knows whether the service is ready."""

    def __init__(
        self,
        host: str,
        port: int,
        models: Models,
        metrics: Metrics,
        limits: Limits | None = None,
        policy: PortPolicy | None = None,
        worker: Worker | None = None,
    ) -> None:
        """`worker`: this process, if it is one of several at the same port."""
        self._policy = policy or PortPolicy()
        self._worker = worker
        neighbours = None if worker is None else worker.neighbours
        access = self._policy.access
        self.admission = Admission(metrics, access.others)
        self._host, self._port = host, port
        self._models = models
        self._metrics = metrics
        self._listener: Listener | None = None
        self._webhooks = Webhooks(self._policy.webhooks, metrics)
        self._sessions = Sessions(
            self.admission, models, metrics, limits, access.quotas, neighbours, access.others, self._webhooks
        )
        self.administration = Administration(access, self._sessions, neighbours, self._policy.usage_path)
        self._uploads = Uploads(self._policy.access, self._sessions, self.admission, self._policy.uploads, metrics)
        places = self._uploads.places
        self._dialects = Dialects(self._policy, self._sessions, self.admission, models, places, metrics)
        self._captions = Captions(access, self._sessions, self._policy.listeners, self._count_drop, neighbours)
        self._wyoming: WyomingPort | None = None
        self.wyoming_port: int | None = None  # on which it listens for Wyoming
        self._grpc: GrpcPort | None = None
        self.grpc_port: int | None = None  # on which it listens for gRPC
        self._turned_away = 0
        self._hurried = asyncio.Event()

    @property
    def url(self) -> str:
        """The URL of the websocket."""
        return url_at(self._host, self._port, self._policy)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._port

    async def start(self) -> None:
        """Start listening, or raise PortError. Port 0 means any free port."""
        policy, metrics = self._policy, self._metrics
        terms = Terms(
            self._routes(),
            ConnectionCounts(FreedMemory().note),
            metrics.failures(HTTP),
            self._count_drop,
            protection,
            policy.handshake_s,
        )
        metrics.connections = lambda: terms.counts.numbers
        listener = Listener(terms, policy.certificate, metrics.accept_failures.inc, policy.header_proxies)
        if policy.wyoming is not None:
            self._wyoming = WyomingPort(self._dialects, self._count_drop, terms.failures, policy.handshake_s)
        if self._worker is not None:
            await self._join(self._worker, listener)
            return
        try:
            self._port = await listener.open(self._host, self._port)
        except OSError as error:
            raise PortError(problem_at(self._host, self._port, error)) from error
        self._listener = listener
        if policy.wyoming is not None and self._wyoming is not None:
            try:
                self.wyoming_port = await self._wyoming.open(*policy.wyoming)
            except OSError as error:
                raise PortError(problem_at(*policy.wyoming, error)) from error
        await self._open_grpc(shared=False)

    async def _open_grpc(self, *, shared: bool) -> None:
        """Listen for gRPC, if that is wanted. `shared`: together with other workers."""
        policy, failures = self._policy, self._metrics.failures(HTTP)
        if policy.grpc is None:
            return
        self._grpc = GrpcPort(self._dialects, self._models, policy, failures, lambda: self.admission.ready)
        try:
            self.grpc_port = await self._grpc.open(*policy.grpc, shared=shared)
        except OSError as error:
            raise PortError(problem_at(*policy.grpc, error)) from error

    async def _join(self, worker: Worker, listener: Listener) -> None:
        """Accept connections at the sockets of all workers, and listen for their questions."""
        answers = {
            ADMIN: self.administration.answer,
            CAPTIONS: self._captions.answer,
            EXPOSITION: self._expose,
            RESUME: self._take,
        }
        await worker.neighbours.open(answers, self._metrics.failures(HTTP))
        self._port = listener.listen(worker.sockets, shared=True)
        self._listener = listener
        if self._wyoming is not None:
            self.wyoming_port = await self._wyoming.listen(worker.wyoming_sockets)
        await self._open_grpc(shared=True)

    async def _expose(self, _: JsonObject, gift: socket.socket | None) -> Reply:
        assert self._worker is not None
        words = self._worker.words(self._metrics)

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield words.exposition

        return Reply({"identity": words.identity, "at": words.at}, pieces())

    async def _take(self, question: JsonObject, gift: socket.socket | None) -> Reply:
        """Take the connection of a client that returned to another worker, and go on with its session."""
        after = int(str(question["after"]))
        await self._policy.access.others.refresh()
        if self._sessions.is_expelled(str(question["token"])):
            return Reply({PROBLEM: ErrorCode.ENDED_BY_OPERATOR.value})
        driver = self._sessions.find(str(question["token"]), str(question["key"]))
        if driver is None or gift is None or self._listener is None:
            return Reply({PROBLEM: ErrorCode.UNKNOWN_TOKEN.value})
        if not driver.session.can_resume(after):
            return Reply({PROBLEM: ErrorCode.BAD_RESUME.value})

        async def go_on(websocket: WebSocket) -> None:
            if driver.take_over(websocket, after):
                await driver.read(websocket)
            else:  # it has ended in this moment: the client tries again, and is told so
                websocket.abort()

        subprotocol = question["subprotocol"]
        taken = self._listener.go_on(
            gift,
            request_of(question),
            None if subprotocol is None else str(subprotocol),
            self._policy.largest_message,
            rest_of(question),
            go_on,
        )
        return Reply({}, keeps=True) if taken else Reply({PROBLEM: ErrorCode.NOT_READY.value})

    async def stop(self, grace: float = 0.0) -> None:
        """End within a bounded time. Sessions may go on for `grace` seconds; then the rest get their finals and end.

        Webhooks have what is left of these times, and a moment at least.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + grace + FINALS_LIMIT_S
        self.admission.close()
        self._metrics.ready.set(0)
        if self._listener is None:
            await self._webhooks.drain(0.0)
            return
        others = self._policy.access.others
        others.drain()
        if self._sessions:
            log.info("draining", sessions=self.admission.sessions, seconds=grace)
            if others.bridges is not None and others.bridges.others:
                self._sessions.move()
        await self._wait(grace)
        self._listener.close()
        if self._wyoming is not None:
            self._wyoming.close()
        if self._grpc is not None:
            self._grpc.close()
            self._grpc.drain()
        self._sessions.drain()
        self._uploads.drain()
        self._dialects.drain()
        await self._wait(FINALS_LIMIT_S)
        self._sessions.cut_off()
        hurried = self._hurried.is_set()
        await self._sessions.wait_until_ended(HURRY_LIMIT_S if hurried else CLOSE_LIMIT_S + CUT_LIMIT_S)
        await self._unless_hurried(self._webhooks.drain(max(WEBHOOKS_LIMIT_S, until - loop.time())))
        await self._webhooks.drain(HURRY_LIMIT_S)
        await self._listener.finish(HURRY_LIMIT_S if hurried else CUT_LIMIT_S)
        if self._wyoming is not None:
            await self._wyoming.finish(HURRY_LIMIT_S if hurried else CUT_LIMIT_S)
        if self._grpc is not None:
            await self._grpc.finish(HURRY_LIMIT_S if hurried else CUT_LIMIT_S)
        if self._worker is not None:
            await self._worker.neighbours.close()

    def hurry(self) -> None:
        """Make stop() cut off all sessions instead of waiting for them, whether it runs already or comes later."""
        self._hurried.set()

    async def _wait(self, limit: float) -> None:
        """Wait until all sessions have ended, or hurry() is called."""
        await self._unless_hurried(self._sessions.wait_until_ended(limit))

    async def _unless_hurried(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait until this is done, or hurry() is called."""
        ending = asyncio.create_task(work)
        hurrying = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait((ending, hurrying), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            hurrying.cancel()

    def _routes(self) -> Routes:
        """Return all paths of the port."""
        policy = self._policy
        probes = Probes(self._exposition, self._state, policy.access)
        native = Endpoint(self._converse, policy.largest_message, (SUBPROTOCOL,))
        paths = f"/ (a page), {PATH} (the websocket), {native_upload.PATH} (recordings), /docs (about recordings)"
        routes = Routes(f"The paths are {paths}, /healthz, /readyz and /metrics.")
        openai = OpenAIPaths(self._uploads, self._models, policy.access)
        for_deepgram = DeepgramPaths(self._models, policy.access)
        routes.add((path, for_deepgram.beside(path, route)) for path, route in openai.models())
        routes.add(for_deepgram.routes())
        if policy.uploads.most:
            uploads = self._uploads
            routes.add([(native_upload.PATH, uploads.route(native_upload.NativeUpload))])
            routes.add(openai.recordings())
            routes.add(Documentation(policy.uploads).routes())
        routes.add([(PATH, Route({"GET": probes.key_check}, native))])
        routes.add([(deepgram.PATH, self._dialects.route(deepgram.DeepgramLive, self._deepgram_recorded()))])
        routes.add(OpenAIRealtimePaths(self._dialects, self._models, policy.access).routes())
        # The others have nothing but a websocket.
        kinds = [kind for kind in FORMATS.values() if kind.path not in routes]
        routes.add((path, self._dialects.route(kind)) for kind in kinds for path in (kind.path, *kind.other_paths))
        routes.add(self._captions.routes())
        routes.add(self.administration.routes())
        routes.add(probes.routes())
        routes.add(StaticFiles(root=lambda page: self._root(page, native)).routes())
        return routes

    async def _exposition(self, query: str) -> bytes:
        if self._worker is None:
            return self._metrics.exposition()
        return await self._worker.exposition(self._metrics, by_worker=parse_qs(query).get("by") == [WORKER])

    def _root(self, page: Route, native: Endpoint) -> Route:
        """Return the route of `/`: the page, and a websocket for clients that know no path."""
        root = self._policy.root
        return Route(page.methods, native) if root == NATIVE else self._dialects.route(FORMATS[root], page)

    def _count_drop(self, reason: str) -> None:
        self._metrics.connections_dropped.labels(reason).inc()

    def _deepgram_recorded(self) -> Route | None:
        if not self._policy.uploads.most:
            return None
        fetches = self._policy.uploads.fetch is not Fetch.OFF
        return self._uploads.route(lambda: DeepgramRecorded(self._models.languages, new_id(), now(), fetches=fetches))

    async def _converse(self, websocket: WebSocket) -> None:
        access, admittance, barred = self._policy.access, None, None
        request = websocket.request
        try:
            admittance = access.enter(request)
            caller = admittance.caller
        except Denied as denied:
            # A caller that has used its quota may still resume one of its sessions, because that counts already.
            if not denied.retry_s or not self._sessions.may_return(access.caller(request).key):
                await self._turn_away(websocket, denied)
                return
            caller = access.caller(request)
            barred = denied
        await self._sessions.open(websocket, admittance, caller.key, barred=barred).read(websocket)

    async def _turn_away(self, websocket: WebSocket, denied: Denied) -> None:
        """Tell the client why it is refused, and close. A browser cannot read the status of a refused handshake."""
        self._metrics.refusals.labels(denied.code).inc()
        self._metrics.usage_of(denied.key).refusals += 1
        log.info("refused", key=denied.key, reason=denied.code)
        self._turned_away += 1
        try:
            if self._turned_away <= MOST_TURNED_AWAY:
                await asyncio.wait_for(_refuse(websocket, denied), CLOSE_LIMIT_S)
        except (asyncio.TimeoutError, ConnectionEnded, NotRead):
            pass
        finally:
            self._turned_away -= 1
            websocket.abort()

    def _state(self) -> ServiceState:
        admission, bridges = self.admission, self._policy.access.others.bridges
        state: ServiceState = {
            "service": "streamer",
            "version": __version__,
            "ready": admission.ready,
            "models": self._models.state(admission.held_by_others),
            "sessions": admission.sessions,
            "sequences": admission.in_use,
            "sessions_limit": admission.most,
        }
        if bridges is not None:
            state["store"] = {"together": bridges.together, "other_bridges": bridges.others}
        return state


def url_at(host: str, port: int, policy: PortPolicy) -> str:
    """Return the URL of the websocket at this address."""
    scheme = "ws" if policy.certificate is None else "wss"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


async def _refuse(websocket: WebSocket, denied: Denied) -> None:
    await websocket.say(render(1, Error(denied.code, denied.message, fatal=True)))
    await websocket.close(denied.close_code, denied.reason)


def problem_at(host: str, port: int, error: OSError) -> str:
    """Say why it is not possible to listen at this address."""
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is already in use: stop the program that uses it, or choose another port."
    if error.errno == errno.EACCES:
        return f"This user may not open port {port} of {host}: choose a port above 1023."
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"'{host}' is not an address of this machine."
    return f"Port {port} of {host} cannot be opened: {error.strerror or error}."


# Returns memory to the system after many connections have ended. Otherwise the process keeps it, and looks larger.

CROWD = 64  # connections
GONE = 8  # the crowd has gone when no more than one in eight of its connections is left
# Wait before returning memory, because connections that have just ended still hold some.
DELAY_S = 1.0
# Returning memory blocks the service for some ten milliseconds, so it must not happen more often than this.
SHORTEST_INTERVAL_S = 20.0


class FreedMemory:
    """Watches the number of connections, and returns memory when a crowd has gone."""

    def __init__(self) -> None:
        self._most = 0
        self._due: asyncio.TimerHandle | None = None
        self._given_back_at = -SHORTEST_INTERVAL_S

    def note(self, number: int) -> None:
        """Note how many connections there are now."""
        self._most = max(self._most, number)
        if self._most >= CROWD and number <= self._most // GONE:
            self._most = number
            if self._due is None:
                loop = asyncio.get_running_loop()
                at = max(loop.time() + DELAY_S, self._given_back_at + SHORTEST_INTERVAL_S)
                self._due = loop.call_at(at, self._give_back)

    def _give_back(self) -> None:
        self._due, self._given_back_at = None, asyncio.get_running_loop().time()
        give_back()


def give_back() -> None:
    """Return unused memory to the system."""
    gc.collect()
    give_back_freed_memory()
