"""The port for gRPC: NVIDIA Riva and Google's Speech-to-Text, beside the port for websockets and HTTP.

Behind it is the same code as behind a websocket in a foreign format, so keys, limits, quotas, the replay after a
failure, metrics and the shutdown are the same.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import grpc  # type: ignore[import-untyped]

from streamer.base.codes import ErrorCode
from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import plain_address
from streamer.bridge.access.quotas import Admittance, Denied
from streamer.bridge.access.rules import PortPolicy
from streamer.bridge.dialects.dialects import Dialects
from streamer.bridge.grpc.call import Call
from streamer.bridge.grpc.messages import (
    BATCH,
    CANCEL,
    CONFIGURATION,
    DELETE,
    GET,
    LONG,
    OPERATIONS,
    POOL,
    SERVICES,
    Codec,
    Method,
)
from streamer.bridge.grpc.operations import Operation, Operations
from streamer.bridge.http.request import Headers, Request
from streamer.bridge.http.websocket import ConnectionEnded
from streamer.bridge.session.endings import shutting_down
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.upstreams.admission import Models, Refused
from streamer.wire.dialects.dialect import Dialect
from streamer.wire.dialects.grpc_speech import CALLS, Status, riva_models, status_of
from streamer.wire.errors import WireError, bad
from streamer.wire.native import encode

log = Log("streamer.bridge")

# The largest request: the limit of Google's for a recording in one. It is in memory as a whole.
LARGEST_REQUEST: Final = 10 * 1024 * 1024
MOST_CALLS: Final = 256  # at a time; further ones are refused by gRPC itself
MOST_CONNECTIONS: Final = 256
# Calls of one connection that its client does not read. Further ones cut it, although other calls of it go on.
MOST_UNREAD: Final = 8
_IDLE_MS: Final = 300_000  # of a connection without a call
_ALIVE_EVERY_MS: Final = 60_000  # whether the client of a silent connection is still there
# Clients ask as well, up to once in a second, also without a call. A connection that asks more often than this for a
# while is cut: four times, if nothing is sent to it between.
_ASKED_EVERY_MS: Final = 500
_HEALTH_EVERY_S: Final = 1.0
_WITHOUT_HEALTH: Final = "gRPC has neither health nor reflection: pip install 'streamer-asr[grpc]' adds both"
_FAULT: Final = "The service failed; its operator can find the reason in its log."
_LONG_RESPONSES: Final = Codec(
    "google.cloud.speech.v1.Speech", Method(LONG, "LongRunningRecognizeRequest", "LongRunningRecognizeResponse")
)
_KINDS: Final = {kind.path: kind for kind in CALLS}
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class GrpcPort:
    """One port, on one address or all of them."""

    def __init__(
        self, dialects: Dialects, models: Models, policy: PortPolicy, failures: Failures, ready: Callable[[], bool]
    ) -> None:
        """`ready`: whether the service takes sessions."""
        self._dialects = dialects
        self._models = models
        self._policy = policy
        self._failures = failures
        self._ready = ready
        self._server: Any = None
        self._calls: set[Call] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._operations = Operations()
        self._unread: set[Call] = set()  # calls that have ended, but whose clients have not taken the last response
        self._port = 0

    async def open(self, host: str, port: int, *, shared: bool = False) -> int:
        """Start listening, and return the port. Port 0 means any free one. Raise OSError if that is not possible.

        `shared`: several workers open the port, and the kernel divides the connections among them.
        """
        _try_to_bind(host, port, shared=shared)
        options = (
            ("grpc.so_reuseport", int(shared)),
            ("grpc.max_receive_message_length", LARGEST_REQUEST + 64 * 1024),
            ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
            ("grpc.max_concurrent_streams", MOST_CALLS),
            ("grpc.server_handshake_timeout_ms", round(self._policy.handshake_s * 1000)),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.keepalive_time_ms", _ALIVE_EVERY_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _ASKED_EVERY_MS),
        )
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MOST_CALLS)
        for service, methods in SERVICES.items():
            # Over the wire, a method without streams is one with a single message in each direction. So a request is
            # read only after its caller was admitted.
            handlers = {
                method.name: grpc.stream_stream_rpc_method_handler(
                    partial(self._serve, service, method, Codec(service, method))
                )
                for method in methods
            }
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self._add_health_and_reflection(server)
        where = f"[{host or '::'}]:{port}" if ":" in (host or "::") else f"{host}:{port}"
        certificate = self._policy.certificate
        try:
            if certificate is None:
                bound = server.add_insecure_port(where)
            else:
                bound = server.add_secure_port(where, _credentials(certificate))
        except RuntimeError as error:  # which says no more than that
            raise OSError(str(error)) from error
        await server.start()
        self._server = server
        self._port = int(bound)
        return self._port

    def close(self) -> None:
        """Stop taking calls. The present ones go on."""
        if self._server is not None:
            self._begin(self._server.stop(_FOREVER_S))

    def drain(self) -> None:
        """End the calls that have no session yet, because the service shuts down."""
        ending = shutting_down()
        for call in list(self._calls):
            if not call.in_session:
                call.close(status_of(ending.error.code), ending.message)

    async def finish(self, limit_s: float) -> None:
        """Wait until all calls have ended, but at most for `limit_s`, and cut off the rest."""
        if self._server is not None:
            await self._server.stop(limit_s)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, service: str, method: Method, codec: Codec, _: object, context: Any) -> None:
        """Serve one call."""
        call = Call(context, codec)
        self._calls.add(call)
        try:
            with suppress(ConnectionEnded):
                await self._converse(service, method, call, _request(service, method, call, context))
        except (WireError, Refused, Denied) as refused:
            call.close(status_of(refused.code), refused.message)
        except Exception as failure:
            self._failures.report("a call failed", failure)
            call.close(Status.INTERNAL, _FAULT)
        finally:
            call.leave()
            self._calls.discard(call)
        self._unread.add(call)
        try:
            await call.settle(partial(self._cut, call))
        finally:
            self._unread.discard(call)
        status, details = call.ending or (Status.UNAVAILABLE, "The call was ended.")
        if status != Status.OK:
            await context.abort(_CODES[status], details)

    async def _converse(self, service: str, method: Method, call: Call, request: Request) -> None:
        if method.name == CONFIGURATION:
            self._policy.access.admit(request)
            await call.first(self._policy.handshake_s)
            await call.say(encode(riva_models(self._models.languages)))
            call.close()
            return
        if service == OPERATIONS:
            await self._answer(method, call, request)
            return
        if method.name == BATCH:
            self._policy.access.admit(request)
            raise bad(ErrorCode.UNSUPPORTED, "The service fetches no recordings: send each as 'content' of Recognize.")
        kind = _KINDS[service]
        admittance = self._dialects.enter(request, kind.protocol)
        try:
            fields = await call.first(self._policy.handshake_s)
            opening = replace(self._dialects.opening(request), settings=encode(fields))
            if not fields:
                raise bad(ErrorCode.BAD_MESSAGE, "The first request must have a configuration.")
            kind.check(opening)
            beginning = await call.beginning(self._dialects.idle_s)
            if not beginning and not method.streams:
                raise bad(ErrorCode.NO_AUDIO, "The request has no audio.")
        except BaseException as error:
            admittance.leave()
            if isinstance(error, WireError):
                self._dialects.count(error.code, kind.protocol, admittance.caller.key)
            raise
        if not beginning:
            admittance.leave()
            call.close()
            return
        if not method.streams:
            call.complete()
        operation = None
        if method.name == LONG:
            try:
                operation = self._operations.begin(admittance.caller)
            except Refused as refused:
                admittance.leave()
                self._dialects.count(refused.code, kind.protocol, admittance.caller.key)
                raise
        make = partial(kind, opening, beginning, recorded=not method.streams)
        try:
            dialect = self._dialects.prepare(make, admittance, kind.protocol)
        except BaseException:
            if operation is not None:
                self._operations.delete(operation)
            raise
        if operation is not None:
            self._begin(self._work(operation, dialect, admittance, beginning))
            await call.answer(operation.describe())
            return
        call.in_session = True
        await self._dialects.serve(dialect, admittance, call)

    async def _work(self, operation: Operation, dialect: Dialect, admittance: Admittance, audio: bytes) -> None:
        """Recognise a recording whose client does not wait."""
        call = operation.call = Call(operation, _LONG_RESPONSES)
        call.in_session = True
        call.complete(audio)
        self._calls.add(call)
        try:
            with suppress(ConnectionEnded):
                await self._dialects.serve(dialect, admittance, call)
        except Exception as failure:
            self._failures.report("an operation failed", failure)
            call.close(Status.INTERNAL, _FAULT)
        finally:
            call.leave()
            self._calls.discard(call)
            self._operations.end(operation, *(call.ending or (Status.UNAVAILABLE, "The operation was ended.")))

    async def _answer(self, method: Method, call: Call, request: Request) -> None:
        """Answer a request about an operation."""
        caller = self._policy.access.admit(request)
        fields = await call.first(self._policy.handshake_s)
        operation = self._operations.find(str(fields.get("name", "")), caller)
        if method.name == GET:
            await call.answer(operation.describe())
            return
        if method.name == CANCEL:
            self._operations.cancel(operation)
        elif method.name == DELETE:
            self._operations.delete(operation)
        await call.answer(b"")

    def _cut(self, call: Call) -> None:
        """Cut the connection of a call whose client does not read, unless another call of it goes on in order."""
        if not any(each.connection == call.connection for each in self._calls) or (
            sum(each.connection == call.connection for each in self._unread) > MOST_UNREAD
        ):
            log.info("a client of gRPC does not read: its connection is cut")
            shut_down(call.connection, self._port)

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _add_health_and_reflection(self, server: Any) -> None:
        try:
            from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
            from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]
        except ImportError:
            log.info(_WITHOUT_HEALTH)
            return
        except Exception as error:  # such as protobuf's, if it is older than these packages
            log.error("gRPC has neither health nor reflection, because its packages do not fit", reason=str(error))
            return
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for described in (health_pb2, reflection_pb2):
            POOL.AddSerializedFile(described.DESCRIPTOR.serialized_pb)
        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server, POOL)
        serving = health_pb2.HealthCheckResponse.ServingStatus

        async def follow() -> None:
            while True:
                status = serving.Value("SERVING" if self._ready() else "NOT_SERVING")
                for name in ("", *SERVICES):
                    await servicer.set(name, status)
                await asyncio.sleep(_HEALTH_EVERY_S)

        self._begin(follow())


_FOREVER_S: Final = 86_400.0  # finish() has the real limit


def _request(service: str, method: Method, call: Call, context: Any) -> Request:
    """Return the request of a call as the rules of access see it: metadata is what headers are to HTTP."""
    metadata = ((name, value) for name, value in context.invocation_metadata() if isinstance(value, str))
    return Request("POST", f"/{service}/{method.name}", headers=Headers(metadata), peer=call.peer)


def shut_down(connection: str, port: int) -> None:
    """Shut down the socket of this port whose other end is this one. gRPC for Python has nothing to end a connection.

    `connection`: as gRPC calls it, such as ipv4:127.0.0.1:5000.
    """
    host, _, number = unquote(connection).partition(":")[2].rpartition(":")
    wanted = plain_address(host.strip("[]")), number
    with suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # it is closed by now, or no socket with another end
                if not stat.S_ISSOCK(os.fstat(int(entry.name)).st_mode):
                    continue
                with socket.socket(fileno=os.dup(int(entry.name))) as found:
                    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != port:
                        continue
                    other = found.getpeername()
                    if (plain_address(other[0]), str(other[1])) == wanted:
                        found.shutdown(socket.SHUT_RDWR)


def _try_to_bind(host: str, port: int, *, shared: bool) -> None:
    """Raise OSError if this port cannot be opened: gRPC does not say why."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT if shared else socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)


def _credentials(certificate: Certificate) -> Any:
    """Return the credentials for TLS. A renewed certificate is used from the next handshake on."""
    known = certificate.pem

    def renewed() -> Any:
        nonlocal known
        certificate.refresh()
        if certificate.pem == known:
            return None
        known = certificate.pem
        return grpc.ssl_server_certificate_configuration([known])

    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([known]), renewed)
