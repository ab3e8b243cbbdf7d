"""Connects to a Triton, and carries many sequences over one gRPC stream.

    link = await Link.connect("127.0.0.1:8001")
    sequence = link.sequence({"step_ms": 320})
    events = await sequence.send(pcm)              # START goes with the first request
    events = await sequence.send(b"", end=True)
    await link.close()

One task writes and one task reads, because writes from several tasks break a stream. The request's id matches an answer
to its request. If Triton or the model refuses a request, only this request fails. If the stream itself fails, all
requests that wait for an answer fail at once with ConnectionLost, and the link is of no more use: connect again and
start new sequences.

This module uses the raw messages, because tritonclient's stream_infer() drops the request id of an error.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.base.codes import FailureCode
from streamer.base.events import Again, Flushed, Heard, ModelEvent
from streamer.bridge.triton import MODEL, TritonError
from streamer.wire.events import Unknown, parse

# The parts of events that this process has ignored, because a later model sends them.
unknown_parts: Counter[Unknown] = Counter()

# Opens connections to a Triton: unencrypted, or with TLS, which also allows metadata such as a key.

CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # ignore a proxy that the environment names
    ("grpc.use_local_subchannel_pool", 1),  # open a connection for every link
)


@dataclass(frozen=True)
class Dialer:
    """Opens gRPC channels. They are encrypted if there are credentials."""

    credentials: Any = None  # grpc.ChannelCredentials
    host: str = ""  # the host that the certificate must name, if the address was resolved from a name

    def to(self, name: str) -> Dialer:
        """Return a dialer for the addresses of this name, which is host:port."""
        return replace(self, host=name.rpartition(":")[0].strip("[]"))

    def channel(self, address: str) -> Any:
        """Open a new channel to this address."""
        if self.credentials is None:
            return grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
        override = (("grpc.ssl_target_name_override", self.host),) if self.host else ()
        return grpc.aio.secure_channel(address, self.credentials, (*CHANNEL_OPTIONS, *override))


PLAIN = Dialer()


def secure_dialer(
    roots: Path | None = None, chain: Path | None = None, key: Path | None = None, metadata: Path | None = None
) -> Dialer:
    """Return a dialer that uses TLS. Raise TritonError if a file cannot be used.

    `roots` replaces the root certificates of gRPC. `chain` and `key` are our own certificate, for a Triton that
    requires one. `metadata` is a file of lines `name: value`, which go with every call.
    """
    credentials = grpc.ssl_channel_credentials(_content(roots), _content(key), _content(chain))
    if metadata is not None:
        calls = grpc.metadata_call_credentials(_Metadata(_pairs(metadata)))
        credentials = grpc.composite_channel_credentials(credentials, calls)
    return Dialer(credentials)


class _Metadata(grpc.AuthMetadataPlugin):  # type: ignore[misc]
    """A plugin that adds the same metadata to every call. gRPC allows this only with TLS."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)

    def __call__(self, context: object, callback: Callable[[tuple[tuple[str, str], ...], None], None]) -> None:
        callback(self._pairs, None)


def _content(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise TritonError(f"{path} cannot be read: {error.strerror}.") from error


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = (_content(path) or b"").decode(errors="replace").splitlines()
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        # The message does not quote the line, because the line may have a secret.
        if not (colon and name and value) or not (name + value).isascii() or not (name + value).isprintable():
            raise TritonError(f"Line {number} of {path} is not valid metadata: write 'name: value'.")
        pairs.append((name.lower(), value))
    return pairs


# When so many requests of all sequences wait to be written, no new sequence starts. Existing sequences go on, since
# each of them has at most one request under way.
QUEUE_LIMIT = 4096
SENT_AT = "sent_at_us"  # tells a model when a request was sent, for its metrics (docs/reference/triton.md)
START_SHARE = 0.9  # the share of a request's time after which Triton itself gives up a START that got no slot
# An answer may seem overdue because this process was suspended. So for this long, answers that have arrived are read.
SECOND_LOOK_S = 0.5
# The ids of requests in this context begin with this, so that they can be found in Triton's log and traces.
origin: ContextVar[str] = ContextVar("origin", default="")
CODE_WORD = re.compile(r"([a-z][a-z_]*): (.*)", re.DOTALL)
IN_ENSEMBLE = re.compile(r"^in ensemble '[^']*', ")  # before the message of a step
Limit = float | Callable[[], float]
"""A number of seconds, or a function that says it. The function is asked again when that time is up."""
NO_SLOT = "no slot became free in time"  # what a client is told instead of Triton's own words
# Triton's own error messages that a caller must tell apart, and the code word for each.
KNOWN = (
    ("must specify the START flag", FailureCode.UNKNOWN_STREAM),  # for example after the idle limit
    ("timeout of the corresponding sequence has been expired", FailureCode.FULL),  # no slot was free in time
    ("is not healthy", FailureCode.UNAVAILABLE),  # the model's process has died; Triton does not start it again
    ("Server is stopping", FailureCode.UNAVAILABLE),
)


class LinkError(Exception):
    """A request failed. `code` is a FailureCode, or a word that only this model has."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ConnectionLost(LinkError):
    """The stream to Triton has ended, so the link and all its sequences have ended too."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureCode.UNAVAILABLE, message)


class Overdue(LinkError):
    """No answer came in time. It may still come, and not match a later request, so the caller must end the sequence."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureCode.OVERDUE, message)


class Link:
    """A stream to one model of one Triton. connect() makes it."""

    def __init__(self, channel: Any, call: Any, model: str, *, in_steps: bool = False) -> None:
        """`in_steps`: the model is an ensemble, which may need a reply before it goes on."""
        self._channel, self._call, self._model = channel, call, model
        self.in_steps = in_steps
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()  # bounded by _put(); None ends the writing
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._open: set[Sequence] = set()  # started and not ended
        self._ends: set[str] = set()  # requests that end a sequence, whose answer nobody awaits
        self._count = 0
        self.answered_at = float("-inf")  # time.monotonic() of the last answer to any request
        self._lost: str | None = None
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    @classmethod
    async def connect(cls, address: str, model: str = MODEL, *, timeout: float = 5.0, dial: Dialer = PLAIN) -> Link:
        """Open a link. Raise LinkError, `unavailable`, if no Triton answers there, or the model is not ready."""
        channel = dial.channel(address)
        try:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            # A stream for a model that is missing, or not decoupled, would crash the server.
            if not await _is_ready(stub, model, timeout):
                raise LinkError(
                    FailureCode.UNAVAILABLE, f"the Triton at {address} does not have the model {model} ready"
                )
            answer = await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=timeout)
            if not answer.config.model_transaction_policy.decoupled:
                raise LinkError(FailureCode.REFUSED, f"the model {model} is not decoupled")
            in_steps = answer.config.HasField("ensemble_scheduling")
            return cls(channel, stub.ModelStreamInfer(), model, in_steps=in_steps)
        except BaseException as error:
            await channel.close()
            if isinstance(error, grpc.aio.AioRpcError):
                raise ConnectionLost(f"no Triton answers at {address}: {error.details()}") from error
            raise

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    def sequence(self, options: Mapping[str, object] | None = None) -> Sequence:
        """Return a new sequence. Nothing is sent yet."""
        return Sequence(self, self._model, options)

    async def infer(self, request: Any, timeout: float) -> Any:
        """Send a request to another model of this Triton, beside the stream. Return its answer, or raise LinkError."""
        try:
            return await service_pb2_grpc.GRPCInferenceServiceStub(self._channel).ModelInfer(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            raise LinkError(FailureCode.OVERDUE if late else FailureCode.FAILED, str(error.details())) from error

    @property
    def alive(self) -> bool:
        """Whether the link can send requests."""
        return self._lost is None

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for an answer."""
        return len(self._waiting)

    @property
    def ending(self) -> int:
        """The number of discarded sequences that have not ended yet."""
        return len(self._ends)

    async def lost(self) -> None:
        """Wait until the link has ended for any reason."""
        await asyncio.wait(self._tasks[1:])

    async def close(self, timeout: float = 10.0) -> None:
        """End the open sequences, wait for the answers that are due, and close the link.

        If the answers do not come in time, the stream is cancelled and the waiting requests fail with ConnectionLost,
        so a silent server cannot delay this forever. The cancellation is safe because our model sends one message for
        each request. With a model that sends several, it would crash Triton.
        """
        for sequence in list(self._open):
            sequence.discard()
        self._end("the link was closed")
        try:
            await asyncio.wait(self._tasks, timeout=timeout)
        finally:
            self._call.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._channel.close()

    def _put(self, request: Any, *, start: bool) -> asyncio.Future[Any]:
        """Give a request an id, and put it into the queue. The result of the future is the answer or a LinkError."""
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        if start and self._outgoing.qsize() >= QUEUE_LIMIT:
            raise LinkError(FailureCode.FULL, f"{QUEUE_LIMIT} requests already wait to be sent to Triton")
        self._count += 1
        request.id = f"{origin.get()}{self._count}"
        self._outgoing.put_nowait(request)
        future = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        return future

    def _forget(self, request: Any) -> None:
        """Drop the answer to this request when it comes."""
        self._waiting.pop(request.id, None)

    def _end(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            self._outgoing.put_nowait(None)

    async def _write(self) -> None:
        try:
            while (request := await self._outgoing.get()) is not None:
                await self._call.write(request)
            await self._call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the stream has failed; _read() knows why and fails the waiting requests

    async def _read(self) -> None:
        why = "Triton closed the stream"
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self.answered_at = time.monotonic()
                self._ends.discard(message.infer_response.id)
                future = self._waiting.pop(message.infer_response.id, None)
                if future is not None:  # otherwise the answer is not awaited any more
                    _settle(future, message)
        except grpc.aio.AioRpcError as error:
            why = f"the stream to Triton failed: {error.details()}"
        finally:
            self._end(why)
            for future in self._waiting.values():
                _settle(future, ConnectionLost(self._lost or why))
            self._waiting.clear()
            self._open.clear()


class Stage(Enum):
    """How far a sequence has got."""

    NEW = "new"  # its next request is a START
    OPEN = "open"
    OVER = "over"  # nothing can be sent any more


class Sequence:
    """One audio stream of a link. The caller must always send END, also after an error, because it frees the slot."""

    def __init__(self, link: Link, model: str, options: Mapping[str, object] | None) -> None:
        # 63 random bits, so that two processes do not pick the same id. Ids are sent as int64, and Triton refuses 0.
        self.id = secrets.randbelow(2**63 - 1) + 1
        self._link, self._model, self._options = link, model, dict(options or {})
        self._stage = Stage.NEW
        self._busy = False  # a request is on its way

    async def send(
        self, pcm: bytes = b"", *, end: bool = False, flush: bool = False, timeout: Limit = 30.0
    ) -> list[ModelEvent]:
        """Send int16 samples (or none) as one request, and return its events.

        Only one request of a sequence may wait for an answer. A second one is refused as `busy`, so that no hidden
        queue grows. After a cancelled or overdue request, the next one may follow at once; Triton keeps the order.
        """
        if self._stage is Stage.OVER or self._busy:
            over = self._stage is Stage.OVER
            code, reason = (FailureCode.OVER, "was ended") if over else (FailureCode.BUSY, "has a request on its way")
            raise LinkError(code, f"sequence {self.id} {reason}")
        self._busy = True
        try:
            if not self._link.in_steps:
                return await self._ask(pcm, {"flush": True} if flush else {}, timeout, end=end)
            return await self._ask_in_steps(pcm, timeout, flush=flush or end, end=end)
        finally:
            self._busy = False

    async def _ask_in_steps(self, pcm: bytes, timeout: Limit, *, flush: bool, end: bool) -> list[ModelEvent]:
        """Send a request to a model of several steps, and further requests as long as the model asks for them."""
        try:
            options: dict[str, object] = {"flush": True} if flush else {}
            events = await self._ask(pcm, options, timeout)
            while isinstance(events[-1] if events else None, Again):
                flush = flush and not any(isinstance(event, Flushed) for event in events)
                if end and not flush:
                    break  # nothing follows the cut
                options = {"again": vars(events[-1]), **({"flush": True} if flush else {})}
                events = _without_end(events) + await self._ask(b"", options, timeout)
        except BaseException:
            if end:
                self.discard()
            raise
        if not end:
            return events
        closing = await self._ask(b"", {}, timeout, end=True)
        return _without_end(events) + [event for event in closing if not isinstance(event, (Again, Flushed))]

    async def _ask(
        self, pcm: bytes, options: Mapping[str, object], timeout: Limit, *, end: bool = False
    ) -> list[ModelEvent]:
        """Send one request with these options, and return its events. A START also has the options of the sequence."""
        limit = timeout if callable(timeout) else lambda: timeout
        first_s = limit()
        request = self._request(pcm, options, end=end, timeout=first_s)
        answer_to = self._post(request, end=end)
        loop = asyncio.get_running_loop()
        began, timers = loop.time(), []

        def look_again() -> None:
            limit_s = limit()
            if (left := began + limit_s - loop.time()) > 0.01:  # it has grown
                timers.append(loop.call_later(left, look_again))
                return
            overdue = Overdue(f"no answer to sequence {self.id} within {round(limit_s, 1):g} s")
            timers.append(loop.call_later(min(SECOND_LOOK_S, limit_s), _settle, answer_to, overdue))

        timers.append(loop.call_later(first_s, look_again))
        try:
            answer = await answer_to
        finally:
            for timer in timers:
                timer.cancel()
            self._link._forget(request)
        if isinstance(answer, LinkError):
            raise answer
        if answer.error_message:
            error = _error(answer.error_message)
            if error.code == FailureCode.UNKNOWN_STREAM and not self._link.in_steps:
                self._link._open.discard(self)  # Triton does not know it, so there is nothing to end
            raise error
        try:
            return _events(answer.infer_response)
        except ValueError as error:
            raise LinkError(FailureCode.FAILED, f"the model's answer is not a list of events: {error}") from error

    async def begin_anew(self, options: Mapping[str, object], *, timeout: float = 30.0) -> list[ModelEvent]:
        """Start the sequence again in the same slot, with other options. The model forgets the earlier audio."""
        self._options, self._stage = dict(options), Stage.NEW
        return await self.send(timeout=timeout)

    def discard(self) -> None:
        """End the sequence without waiting for the answer. Do nothing if the sequence is not open."""
        if self._stage is Stage.OPEN:
            self._stage = Stage.OVER
            request = self._request(b"", {}, end=True)
            with suppress(LinkError):  # Triton frees the slot after its idle limit
                self._post(request, end=True)
                self._link._ends.add(request.id)
            self._link._open.discard(self)
            self._link._forget(request)

    def abandon(self) -> None:
        """Send nothing more, not even END. Triton will forget the sequence after its idle limit."""
        self._stage = Stage.OVER
        self._link._open.discard(self)

    def _post(self, request: Any, *, end: bool) -> asyncio.Future[Any]:
        answer = self._link._put(request, start=self._stage is Stage.NEW)
        self._stage = Stage.OVER if end else Stage.OPEN
        (self._link._open.discard if end else self._link._open.add)(self)
        return answer

    def _request(self, pcm: bytes, more: Mapping[str, object], *, end: bool, timeout: float = 0.0) -> Any:
        if len(pcm) % 2:
            raise ValueError(f"{len(pcm)} bytes are not a whole number of int16 samples")
        options = {**self._options, **more} if self._stage is Stage.NEW else more
        # Every request has this input, because Triton does not batch requests with it and without it.
        text = json.dumps(options).encode()
        request = service_pb2.ModelInferRequest(model_name=self._model)
        request.inputs.add(name="AUDIO", datatype="INT16", shape=[1, len(pcm) // 2])
        request.inputs.add(name="OPTIONS", datatype="BYTES", shape=[1, 1])
        request.raw_input_contents.extend((pcm, len(text).to_bytes(4, "little") + text))
        request.parameters["sequence_id"].int64_param = self.id
        request.parameters[SENT_AT].int64_param = time.time_ns() // 1000
        if self._stage is Stage.NEW:
            request.parameters["sequence_start"].bool_param = True
            # Without this limit, Triton's backlog of sequences without a slot could grow without a bound.
            request.parameters["timeout"].int64_param = max(1, int(timeout * START_SHARE * 1e6))
        if end:
            request.parameters["sequence_end"].bool_param = True
        return request


async def _is_ready(stub: Any, model: str, timeout: float) -> bool:
    answer = await stub.ModelReady(service_pb2.ModelReadyRequest(name=model), timeout=timeout)
    return bool(answer.ready)


def _without_end(events: list[ModelEvent]) -> list[ModelEvent]:
    """Leave out the end of an answer if another one follows, which says again how much was heard."""
    return [event for event in events if not isinstance(event, (Again, Heard))]


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():  # it may have been cancelled
        future.set_result(result)


def _error(text: str) -> LinkError:
    for words, code in KNOWN:
        if words in text:
            return LinkError(code, NO_SLOT if code is FailureCode.FULL else text)
    parts = CODE_WORD.fullmatch(IN_ENSEMBLE.sub("", text))
    return LinkError(parts[1], parts[2]) if parts else LinkError(FailureCode.REFUSED, text)


def _events(answer: Any) -> list[ModelEvent]:
    """Return the events in the tensor EVENTS, which has strings of JSON, each after its length."""
    events: list[ModelEvent] = []
    data = answer.raw_output_contents[0] if answer.raw_output_contents else b""
    position = 0
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "little")
        events.append(parse(data[start:position], unknown_parts))
    return events
