"""One gRPC stream to Triton that carries many sequences.

    link = await Link.connect("127.0.0.1:8001")
    sequence = link.sequence({"step_ms": 320})
    events = await sequence.send(pcm)              # START goes with the first request
    events = await sequence.send(b"", end=True)
    await link.close()

One task writes and one reads, because writes from several tasks break a stream; answers find their request by its
id. A request that Triton or the model refuses fails alone. When the stream itself fails, everything that waits on it
fails at once with ConnectionLost, and the link is of no further use: connect anew and start the sequences again.

The raw messages are used instead of tritonclient's stream_infer(), which drops the request id of an error.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.triton import MODEL
from streamer.triton.dialer import PLAIN, Dialer
from streamer.wire.model_events import ModelEvent, parse

# Requests that wait to be written, over all sequences: from here on no sequence is begun. Those that there are have one
# request on its way each, which is their own bound: a session that was let in is not cut off for others.
QUEUE_LIMIT = 4096
START_SHARE = 0.9  # of a request's time, after which Triton itself gives up a START that got no slot
# When an answer is overdue we may have been stopped ourselves: so long what came meanwhile is looked at.
SECOND_LOOK_S = 0.5
# Whose requests those of this context are: the ids begin with it, for whoever looks into Triton's log and traces.
origin: ContextVar[str] = ContextVar("origin", default="")
CODE_WORD = re.compile(r"([a-z][a-z_]*): (.*)", re.DOTALL)
# Triton's own sentences that mean something to a caller, and the code word for it.
KNOWN = (
    ("must specify the START flag", "unknown_stream"),  # among others: after the idle limit
    ("timeout of the corresponding sequence has been expired", "full"),  # no slot was free in time
    ("is not healthy", "unavailable"),  # the model's process has died; Triton does not start it again
    ("Server is stopping", "unavailable"),
)


class LinkError(Exception):
    """A request that failed. `code` is the model's code word, or one of ours:

    unavailable (no Triton, or no model in it), overdue (no answer in time), full (no room now, try later),
    unknown_stream (the sequence is not known any more), over (it was ended), busy (its last request is not yet
    answered), refused (all else).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class ConnectionLost(LinkError):
    """The stream to Triton has ended; the link and all its sequences with it."""

    def __init__(self, message: str) -> None:
        super().__init__("unavailable", message)


class Overdue(LinkError):
    """No answer came in time. It may still be computed: end the sequence, its answers are no longer in step."""

    def __init__(self, message: str) -> None:
        super().__init__("overdue", message)


async def ready(address: str, model: str = MODEL, timeout: float = 2.0) -> bool:
    """Whether a Triton answers at `address` (gRPC) and has the model loaded."""
    async with PLAIN.channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        try:
            return await _is_ready(stub, model, timeout)
        except grpc.aio.AioRpcError:
            return False


class Link:
    """A stream to the model of one Triton; made by connect()."""

    def __init__(self, channel: Any, call: Any, model: str) -> None:
        self._channel, self._call, self._model = channel, call, model
        self._outgoing: asyncio.Queue[Any] = asyncio.Queue()  # bounded by _put(); None ends the writing
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._open: set[Sequence] = set()  # started and not ended
        self._count = 0
        self.answered_at = float("-inf")  # time.monotonic() of the last answer to anybody
        self._lost: str | None = None
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    @classmethod
    async def connect(cls, address: str, model: str = MODEL, *, timeout: float = 5.0, dial: Dialer = PLAIN) -> Link:
        """Open a link. LinkError("unavailable") when there is no such Triton or the model is not ready in it."""
        channel = dial.channel(address)
        try:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            # A stream for a model that is not there, or not decoupled, would crash the server.
            if not await _is_ready(stub, model, timeout):
                raise LinkError("unavailable", f"the Triton at {address} does not have the model {model} ready")
            answer = await stub.ModelConfig(service_pb2.ModelConfigRequest(name=model), timeout=timeout)
            if not answer.config.model_transaction_policy.decoupled:
                raise LinkError("refused", f"the model {model} is not decoupled")
            return cls(channel, stub.ModelStreamInfer(), model)
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
        """A new sequence; nothing is sent yet."""
        return Sequence(self, self._model, options)

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self._lost is None

    @property
    def in_flight(self) -> int:
        """Requests that somebody waits for."""
        return len(self._waiting)

    async def lost(self) -> None:
        """Returns when the link has ended, for whatever reason."""
        await asyncio.wait(self._tasks[1:])

    async def close(self, timeout: float = 10.0) -> None:
        """End the sequences that are open, wait for the answers that are due, and close.

        If they don't come in time the stream is cancelled after all, and who waits gets ConnectionLost: a server
        that doesn't answer would otherwise keep us forever. It costs it nothing, since our model sends one message
        a request; only a model that sends several is known to crash Triton then.
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
        """Queue a request, giving it an id. The future gets its answer or a LinkError, as a result."""
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        if start and self._outgoing.qsize() >= QUEUE_LIMIT:
            raise LinkError("full", f"{QUEUE_LIMIT} requests wait to be sent to Triton already")
        self._count += 1
        request.id = f"{origin.get()}{self._count}"
        self._outgoing.put_nowait(request)
        future = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        return future

    def _forget(self, request: Any) -> None:
        """Nobody waits for the answer to this request any more; it is dropped if it comes."""
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
            pass  # the stream has failed; the reader knows why and tells those who wait

    async def _read(self) -> None:
        why = "Triton closed the stream"
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self.answered_at = time.monotonic()
                future = self._waiting.pop(message.infer_response.id, None)
                if future is not None:  # else nobody waits for it any more
                    _settle(future, message)
        except grpc.aio.AioRpcError as error:
            why = f"the stream to Triton failed: {error.details()}"
        finally:
            self._end(why)
            for future in self._waiting.values():
                _settle(future, ConnectionLost(self._lost or why))
            self._waiting.clear()
            self._open.clear()


class Sequence:
    """One audio stream of a link. Send END when it is over, also after an error: it holds a slot until then."""

    def __init__(self, link: Link, model: str, options: Mapping[str, object] | None) -> None:
        # 63 bits, never 0: two processes can't pick alike, Triton refuses 0, and ids travel as int64.
        self.id = secrets.randbelow(2**63 - 1) + 1
        self._link, self._model, self._options = link, model, dict(options or {})
        self._started = self._over = self._busy = False

    async def send(
        self, pcm: bytes = b"", *, end: bool = False, flush: bool = False, timeout: float = 30.0
    ) -> list[ModelEvent]:
        """Send int16 samples (or none) as one request and return its events.

        One request of a sequence is on its way at a time: a second one is refused as `busy`, so that nothing queues
        unseen. After a cancelled or overdue request the next may follow at once; Triton keeps the order.
        """
        if self._over or self._busy:
            code, reason = ("over", "was ended") if self._over else ("busy", "has a request on its way")
            raise LinkError(code, f"sequence {self.id} {reason}")
        request = self._request(pcm, end=end, flush=flush, timeout=timeout)
        answer_to = self._post(request, end=end)
        overdue = Overdue(f"no answer to sequence {self.id} within {timeout:g} s")
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def look_again() -> None:
            timers.append(loop.call_later(min(SECOND_LOOK_S, timeout), _settle, answer_to, overdue))

        timers.append(loop.call_later(timeout, look_again))
        self._busy = True
        try:
            answer = await answer_to
        finally:
            for timer in timers:
                timer.cancel()
            self._link._forget(request)
            self._busy = False
        if isinstance(answer, LinkError):
            raise answer
        if answer.error_message:
            error = _error(answer.error_message)
            if error.code == "unknown_stream":
                self._link._open.discard(self)  # there is nothing to end
            raise error
        try:
            return _events(answer.infer_response)
        except ValueError as error:
            raise LinkError("failed", f"what the model answers is no list of events: {error}") from error

    async def begin_anew(self, options: Mapping[str, object], *, timeout: float = 30.0) -> list[ModelEvent]:
        """Begin the sequence once more where it is, with other options. What it has heard is forgotten."""
        self._options, self._started = dict(options), False
        return await self.send(timeout=timeout)

    def discard(self) -> None:
        """End the sequence without waiting, for a client that has gone; does nothing when there is nothing to end."""
        if self._started and not self._over:
            self._over = True
            request = self._request(b"", end=True)
            with suppress(LinkError):  # Triton frees the slot after its idle limit
                self._post(request, end=True)
            self._link._open.discard(self)
            self._link._forget(request)

    def abandon(self) -> None:
        """Nobody sends anything more to it, and Triton may find that out by itself after its idle limit."""
        self._over = True
        self._link._open.discard(self)

    def _post(self, request: Any, *, end: bool) -> asyncio.Future[Any]:
        answer = self._link._put(request, start=not self._started)
        self._started, self._over = True, end
        (self._link._open.discard if end else self._link._open.add)(self)
        return answer

    def _request(self, pcm: bytes, *, end: bool, flush: bool = False, timeout: float = 0.0) -> Any:
        if len(pcm) % 2:
            raise ValueError(f"{len(pcm)} bytes are not a whole number of int16 samples")
        options = {} if self._started else self._options
        if flush:
            options = {**options, "flush": True}
        # With every request, because Triton doesn't batch one that has this input with one that lacks it.
        text = json.dumps(options).encode()
        request = service_pb2.ModelInferRequest(model_name=self._model)
        request.inputs.add(name="AUDIO", datatype="INT16", shape=[1, len(pcm) // 2])
        request.inputs.add(name="OPTIONS", datatype="BYTES", shape=[1, 1])
        request.raw_input_contents.extend((pcm, len(text).to_bytes(4, "little") + text))
        request.parameters["sequence_id"].int64_param = self.id
        if not self._started:
            request.parameters["sequence_start"].bool_param = True
            # Triton's backlog of sequences without a slot has no limit of its own.
            request.parameters["timeout"].int64_param = max(1, int(timeout * START_SHARE * 1e6))
        if end:
            request.parameters["sequence_end"].bool_param = True
        return request


async def _is_ready(stub: Any, model: str, timeout: float) -> bool:
    answer = await stub.ModelReady(service_pb2.ModelReadyRequest(name=model), timeout=timeout)
    return bool(answer.ready)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():  # its waiter may have been cancelled
        future.set_result(result)


def _error(text: str) -> LinkError:
    for words, code in KNOWN:
        if words in text:
            return LinkError(code, text)
    parts = CODE_WORD.fullmatch(text)
    return LinkError(parts[1], parts[2]) if parts else LinkError("refused", text)


def _events(answer: Any) -> list[ModelEvent]:
    """The JSON objects of the tensor EVENTS: strings, each after its length."""
    events: list[ModelEvent] = []
    data = answer.raw_output_contents[0] if answer.raw_output_contents else b""
    position = 0
    while position < len(data):
        start = position + 4
        position = start + int.from_bytes(data[position:start], "little")
        events.append(parse(data[start:position]))
    return events
