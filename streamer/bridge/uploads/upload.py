"""One uploaded recording from the first byte of its body to the last of its answer, and the session that hears it.

A decoder process takes the body, as fast as it decodes. A session takes the decoded audio, as fast as it is recognised.
The answer takes the session's messages, as fast as the client reads. So nothing piles up in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from streamer.audio.decoder import SAMPLE_RATE
from streamer.base.codes import ErrorCode, QuietEnding, Reason
from streamer.base.events import Done, Error, ServerMessage, Starting
from streamer.bridge.access.quotas import Admittance, UploadLimits
from streamer.bridge.http.request import HttpError, Request, Response
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead
from streamer.bridge.session.messages import Numbered
from streamer.bridge.sessions import Sessions
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.uploads.decoding import (
    GIVEN_AWAY,
    SLOW_AFTER_S,
    DecoderProblem,
    Decoding,
    End,
    NotTaken,
    Opened,
    Samples,
)
from streamer.bridge.uploads.fetching import Fetcher
from streamer.wire.errors import WireError
from streamer.wire.native import encode
from streamer.wire.upload import EVENTS, Field, Problem, UploadFormat, problem_of

log = Log("streamer.bridge")

# A stream of events sends a comment if there is no event, so that proxies do not take the connection for dead.
COMMENT_EVERY_S: Final = 15.0
_COMMENT: Final = b": waiting\n\n"
SHUTTING_DOWN: Final = Problem(ErrorCode.SHUTTING_DOWN, "The service is shutting down; try again later.")


@dataclass(frozen=True)
class Surroundings:
    """The things that all uploads of a port share."""

    sessions: Sessions
    fetcher: Fetcher
    limits: UploadLimits
    failures: Failures


class Stopped(Exception):
    """The upload has ended without a transcript."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Upload:
    """The upload of one recording. Call release() in any case."""

    def __init__(self, request: Request, format: UploadFormat, admittance: Admittance, around: Surroundings) -> None:
        """`admittance`: the upload hands it to its session, or gives it back."""
        self.caller = admittance.pseudonym
        self.size = 0  # bytes of the recording so far
        self.ended_by: Reason | None = None  # before the end
        self._request = request
        self._format = format
        self._admittance: Admittance | None = admittance
        self._around = around
        self._decoding: Decoding | None = None
        self._header: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._client: UploadClient | None = None
        self._problem: Problem | None = None  # of the request; `_client` knows the one of the recording
        self._error: Problem | None = None  # the error with which the session ended
        self._done = False
        self._backlog = b""  # events that came before the request said whether it wants events
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._began_at = asyncio.get_running_loop().time()
        self._awaits_client = True  # for more of the recording

    async def respond(self) -> Response:
        """Return the answer, or its beginning. Raise Stopped if there is no transcript."""
        limit_s = self._around.limits.request_s
        late = Problem(
            ErrorCode.TOO_SLOW, f"The request takes longer than {limit_s:g} s, the maximum: send less at a time."
        )
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._fail, late)
        self._tasks.append(asyncio.create_task(self._feed()))
        header = await self._header
        longest_s = self._around.limits.longest_s
        if header.seconds is not None and header.seconds > longest_s:
            raise Stopped(too_long(longest_s))
        client = self._open_session(header)
        while not client.over and (self._format.streams is None or not self._format.begun):
            await self._take_next(client, COMMENT_EVERY_S)
        if self._format.streams and not client.over:
            headers = {"Content-Type": EVENTS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
            return Response(HTTPStatus.OK, headers, self._events(client))
        while not client.over:
            await self._take_next(client, COMMENT_EVERY_S)
        if (problem := self._outcome()) is not None:
            raise Stopped(problem)
        if self._format.streams:
            headers = {"Content-Type": EVENTS, "Cache-Control": "no-store"}
            return Response(HTTPStatus.OK, headers, self._backlog + self._format.last_event(None))
        kind, text = self._format.document()
        return Response(HTTPStatus.OK, {"Content-Type": kind, "Cache-Control": "no-store"}, text.encode())

    async def release(self) -> None:
        """Stop the session, the decoder and all tasks. The session ends its own sequences."""
        if self._timer is not None:
            self._timer.cancel()
        if self._client is not None:
            self._client.leave()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._decoding is not None:
            await self._decoding.finish()
        admittance, self._admittance = self._admittance, None
        if admittance is not None:
            admittance.leave()
        if not self._header.done():
            self._header.cancel()
        elif not self._header.cancelled():
            self._header.exception()  # it may never have been awaited

    def drain(self) -> None:
        """End, because the service shuts down. A session that has begun ends by itself."""
        if self._client is None:
            self._fail(SHUTTING_DOWN)

    # For its place

    def pace(self) -> float | None:
        """Return how many bytes came in a second; None if it does not wait for its client, or not for long enough."""
        age_s = asyncio.get_running_loop().time() - self._began_at
        return self.size / age_s if self._awaits_client and age_s >= SLOW_AFTER_S else None

    def give_way(self) -> None:
        """End, because another upload gets the place."""
        self._fail(GIVEN_AWAY)

    # The body

    async def _feed(self) -> None:
        """Bring the recording to its decoder."""
        try:
            async with aclosing(self._file()) as file:
                with suppress(NotTaken):
                    async for data in file:
                        await self._decode(data)
            self._awaits_client = False
            self._format.settle()
            if self._decoding is None:
                self._fail(Problem(ErrorCode.NO_AUDIO, "The request holds no recording: send one as its body."))
            else:
                self._decoding.end()
        except HttpError as error:
            self._fail(Problem(error.code, error.message))
        except WireError as error:
            self._fail(problem_of(error))
        except OSError as error:
            log.warning("a decoder could not be started", reason=error.strerror or str(error))
            self._fail(Problem(ErrorCode.BUSY, "The service cannot decode a recording now; try again later."))
        except Exception as error:
            self._around.failures.report("an upload failed", error)
            self._fail(Problem(ErrorCode.INTERNAL, "The service failed; its log says why."))
        if self._client is not None:
            self._client.stir()

    async def _decode(self, data: bytes) -> None:
        """Give the next part of the recording to its decoder."""
        self._awaits_client = False
        self._format.look(data)
        if self._decoding is None:
            await self._begin_decoding()
        assert self._decoding is not None
        self.size += len(data)
        await self._decoding.feed(data)
        self._awaits_client = True

    async def _file(self) -> AsyncGenerator[bytes, None]:
        """Yield the recording. If the body has more than it, give its fields to the format."""
        body = aiter(self._request.body)
        beginning = await anext(body, b"")
        reader = self._format.reader(self._request.headers.get("Content-Type"), beginning)
        if reader is None:
            self._format.settle()
            if beginning:
                yield beginning
            async for piece in body:
                yield piece
            return
        piece = beginning
        while piece:
            for part in reader.feed(piece):
                if isinstance(part, Field):
                    self._take_field(part, late=reader.has_file)
                else:
                    yield part
            piece = await anext(body, b"")
        for last in reader.finish():
            if isinstance(last, Field):
                self._take_field(last, late=True)
                continue
            self._format.settle()
            async with aclosing(self._around.fetcher.fetch(last.text)) as recording:
                async for piece in recording:
                    yield piece

    def _take_field(self, field: Field, *, late: bool) -> None:
        self._format.field(field.name, field.value, late=late)
        if self._client is not None:
            self._client.stir()

    async def _begin_decoding(self) -> None:
        format = self._format
        self._decoding = await Decoding.begin(self._around.limits, format.samples, separate=format.separate)
        self._tasks.append(asyncio.create_task(self._await_header(self._decoding)))

    async def _await_header(self, decoding: Decoding) -> None:
        try:
            frame = await decoding.next()
        except Exception as error:
            self._around.failures.report("an upload failed", error)
            frame = End()
        if isinstance(frame, Opened):
            if not self._header.done():
                self._header.set_result(frame)
        elif isinstance(frame, DecoderProblem):
            self._fail(Problem(ErrorCode(frame.code), frame.message))
        else:
            self._fail(Problem(ErrorCode.INTERNAL, "The decoder of the recording failed."))

    def _fail(self, problem: Problem) -> None:
        """End the recording here. If a session has begun, it still gets the decoded audio."""
        self._problem = self._problem or problem
        if self._client is not None:
            self._client.fail(problem)
        elif not self._header.done():
            self._header.set_exception(Stopped(self._problem))

    # The session

    def _open_session(self, header: Opened) -> UploadClient:
        assert self._decoding is not None
        start = self._format.start(header.channels)
        client = UploadClient(self._decoding, header.channels, start, self._around.limits.longest_s)
        admittance, self._admittance = self._admittance, None
        assert admittance is not None
        self._client = client
        driver = self._around.sessions.open(
            client, admittance, admittance.caller.key, protocol=self._format.protocol, resumable=False
        )
        self._tasks.append(asyncio.create_task(driver.read(client)))
        if self._problem is not None:
            client.fail(self._problem)
        return client

    async def _take_next(self, client: UploadClient, limit_s: float) -> bytes:
        """Add the next message to the transcript. Return the event for it, which also goes to the backlog."""
        message = await client.next(limit_s)
        if message is None:
            return b""
        self._format.add(message)
        if isinstance(message, Error) and message.fatal:
            self._error = Problem(message.code, message.message)
        self._done = self._done or isinstance(message, Done)
        event = self._format.event(message)
        if self._format.streams is not False:
            self._backlog += event
        return event

    def _outcome(self) -> Problem | None:
        """Return the problem that ended the upload; None if it was successful."""
        assert self._client is not None
        problem = self._error or self._problem or self._client.problem
        if problem is None and not self._done:
            problem = Problem(ErrorCode.INTERNAL, "The session ended too early; the log of the service says why.")
        self.ended_by = problem.code if problem is not None else QuietEnding.DONE
        return problem

    # The answer

    async def _events(self, client: UploadClient) -> AsyncIterator[bytes]:
        yield self._backlog
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        while not client.over:
            self._backlog = b""
            event = await self._take_next(client, COMMENT_EVERY_S)
            if event or loop.time() - sent_at >= COMMENT_EVERY_S:
                sent_at = loop.time()
                yield event or _COMMENT
        yield self._format.last_event(self._outcome())


# The client of the session of an uploaded recording: it starts, sends audio as it is decoded, and stops.

# The most messages that wait for the answer. At this limit the session waits, and ends if nobody reads for too long.
MOST_WAITING: Final = 64
_STOP: Final = encode({"type": "stop"})


class UploadClient:
    """Sends a recording to its session, and keeps the session's messages for the answer."""

    def __init__(self, decoding: Decoding, channels: int, start: str, longest_s: float) -> None:
        """`start`: the first message. `longest_s`: more audio than this is a problem."""
        self.problem: Problem | None = None
        self._decoding = decoding
        self._greeting = start
        self._remaining = round(longest_s * SAMPLE_RATE) * 2 * channels  # bytes
        self._longest_s = longest_s
        self._stopped = False
        self._closing: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._messages: deque[ServerMessage] = deque()
        self._news = asyncio.Event()  # next() has something to return
        self._room = asyncio.Event()
        self._interrupted = False

    # For the answer

    @property
    def over(self) -> bool:
        """Whether the session has ended and all of its messages were taken."""
        return self._over.is_set() and not self._messages

    async def next(self, limit_s: float) -> ServerMessage | None:
        """Return the next message; None after this limit, at the end, or after stir()."""
        if not self._messages and not self._over.is_set():
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), limit_s)
            except asyncio.TimeoutError:
                return None
        if not self._messages:
            return None
        message = self._messages.popleft()
        if len(self._messages) < MOST_WAITING:
            self._room.set()
        return message

    def stir(self) -> None:
        """Make next() return at once."""
        self._news.set()

    def fail(self, problem: Problem) -> None:
        """End the recording here. The decoded audio still becomes final."""
        if self.problem is None and not self._stopped:
            self.problem = problem
            self._decoding.kill()

    def leave(self) -> None:
        """Note that nobody waits for the answer any more."""
        self._decoding.kill()
        self._over.set()
        self._room.set()
        self._news.set()

    # For the driver

    closing = property(lambda self: self._closing is not None)
    closed = property(lambda self: self._closing is not None and self._closing.done())
    agreed = property(lambda self: self._over.is_set())
    goodbye = property(lambda self: self._over.is_set())
    fault = None
    unintelligible = False

    async def receive(self) -> str | bytes:
        """Return `start`, then the audio as it is decoded, then `stop`."""
        if self._greeting:
            start, self._greeting = self._greeting, ""
            return start
        if not self._stopped and not self._over.is_set():
            frame = await self._decoding.next()
            if isinstance(frame, Samples) and self.problem is None:
                self._remaining -= len(frame.pcm)
                if self._remaining >= 0:
                    return frame.pcm
                self.fail(too_long(self._longest_s))
            elif isinstance(frame, DecoderProblem):
                self.problem = self.problem or Problem(ErrorCode(frame.code), frame.message)
            elif not isinstance(frame, End):
                self.problem = self.problem or Problem(ErrorCode.INTERNAL, "The decoder of the recording failed.")
            self._stopped = True
            return _STOP
        await self._over.wait()
        raise ConnectionEnded

    async def send(self, messages: Iterable[Numbered], on_sent: Callable[[Numbered], None]) -> bool:
        """Keep messages for the answer, when there is room. Raise NotRead or ConnectionEnded if that fails."""
        self._interrupted = False
        for message in messages:
            if isinstance(
                message.message, Starting
            ):  # it must not be the first message, which decides the status of the answer
                continue
            while len(self._messages) >= MOST_WAITING and not self._over.is_set():
                self._room.clear()
                try:
                    await asyncio.wait_for(self._room.wait(), SEND_LIMIT_S)
                except asyncio.TimeoutError:
                    raise NotRead(SEND_LIMIT_S) from None
                if self._interrupted:
                    return False
            if self._over.is_set():
                raise ConnectionEnded
            self._messages.append(message.message)
            self._news.set()
            on_sent(message)
        return True

    def close(self, code: int, reason: str) -> asyncio.Task[None]:
        """End the answer, because the session has sent all of its messages."""
        if self._closing is None:
            self.leave()
            self._closing = asyncio.create_task(_done())
        return self._closing

    async def wait_until_closed(self) -> None:
        """Wait until close() is called."""
        await self._over.wait()

    wait_until_lost = wait_until_closed

    async def pause(self, seconds: float) -> None:
        """Do nothing, because an upload sends no flushes."""

    async def drop(self, code: int, reason: str) -> None:
        """Close it, even if messages are being sent."""
        self.leave()

    def ignore_rest(self) -> None:
        """Do nothing, because an upload sends nothing invalid."""

    def interrupt(self) -> None:
        """Stop a send() that is under way."""
        self._interrupted = True
        self._room.set()

    def abort(self) -> None:
        """Cut it off."""
        self.leave()


def too_long(longest_s: float) -> Problem:
    """Make the problem of a recording that is too long."""
    why = f"The recording is longer than {longest_s:g} s, the maximum: cut it into several and send them one by one."
    return Problem(ErrorCode.TOO_LONG, why)


async def _done() -> None:
    return
