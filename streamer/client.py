"""The asynchronous client of the native protocol.

    async for event in transcribe("talk.wav", "ws://127.0.0.1:8080"):
        if event["type"] == "final":
            print(event["text"])

Events are the protocol's own objects as dicts. Whatever goes wrong with the service is one exception,
StreamError.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from streamer.address import websocket_url
from streamer.audio.files import AudioFile, Block
from streamer.wire.errors import CloseCode
from streamer.wire.native import encode
from streamer.wire.options import Start

Event = dict[str, Any]
Sound = bytes | Block
Source = str | os.PathLike[str] | Iterable[Sound] | AsyncIterable[Sound]

CONNECT_S: Final = 10.0
# The service acknowledges sound twice a second and closes a silent session itself: so much of nothing is a
# fault.
PATIENCE_S: Final = 90.0
CLOSE_S: Final = 2.0
KEY_VARIABLE: Final = "STREAMER_KEY"
KEEPALIVE_S: Final = 5.0
PACED_MS: Final = 100
LONGEST_MS: Final = 1_000
LOST: Final = 1006  # what a closed connection has for a code when nobody said goodbye


class StreamError(Exception):
    """The service refused, failed, or is not there: a code word for programs, a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def connect(url: str, options: Mapping[str, Any] | None = None, key: str | None = None) -> Opening:
    """Opens a session: `async with connect(url) as session`, or `session = await connect(url)`.

    `options` are those of the protocol's `start`; `url` may also be `host:port`. Without a `key` the one in the
    environment variable STREAMER_KEY is shown to the service, if there is one.
    """
    return Opening(url, options or {}, os.environ.get(KEY_VARIABLE, "") if key is None else key)


async def transcribe(
    source: Source,
    url: str,
    *,
    options: Mapping[str, Any] | None = None,
    paced: bool = False,
    channels: Literal["mix", "separate"] = "mix",
    key: str | None = None,
) -> AsyncGenerator[Event, None]:
    """All events of one recording, from `ready` to `done`.

    The source is a file's path, or blocks of sound: int16 mono 16 kHz (arrays or bytes), or bytes of what `options`
    declare; an empty block says that there is none at present. `paced` sends it as fast as it was spoken. The channels
    of a file are mixed, or recognised each on its own: then events have a `channel`. If the source fails, what
    came before it is still recognised; its exception comes after the last event.
    """
    separate, options = channels == "separate", dict(options or {})
    recording = AudioFile(source, separate=separate) if isinstance(source, (str, os.PathLike)) else None
    if recording and separate:
        options |= {"channels": recording.channels, "multichannel": True}
    blocks: Iterable[Sound] | AsyncIterable[Sound]
    blocks = recording.blocks() if recording else source  # type: ignore[assignment]
    try:
        async with connect(url, options, key) as session:
            sender = asyncio.create_task(_send(session, blocks, _Measure.of(options), paced))
            try:
                yield session.ready
                async for event in session:
                    yield event
                await sender
            finally:
                sender.cancel()
                await session.close()
                await asyncio.gather(sender, return_exceptions=True)
    finally:
        if recording:
            recording.close()


class Session:
    """An open session: send sound while iterating over its events."""

    def __init__(self, url: str, websocket: ClientConnection) -> None:
        self.url = url
        self.ready: Event = {}
        self._websocket = websocket
        self._done = False
        self._overdue = ""
        self._closing: asyncio.Task[None] | None = None

    async def send(self, sound: Sound) -> None:
        """Sends sound (int16 mono 16 kHz unless declared otherwise); waits while the service reads no more."""
        data = sound if isinstance(sound, bytes) else sound.astype("<i2", copy=False).tobytes()
        await self._send(data)

    async def flush(self) -> None:
        """Asks that everything so far becomes final now; answered by a `flushed` event."""
        await self._send(encode({"type": "flush"}))

    async def keepalive(self) -> None:
        """Keeps the session open while there is no sound."""
        await self._send(encode({"type": "keepalive"}))

    async def stop(self) -> None:
        """Says that there is no more sound; the remaining events follow."""
        await self._send(encode({"type": "stop"}))

    async def close(self) -> None:
        """Closes the connection, whatever is still on its way."""
        await self._websocket.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._done:
            raise StopAsyncIteration
        event = await self._receive()
        self._done = event["type"] == "done"
        return event

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self, options: Mapping[str, Any]) -> None:
        """Opens the session on a new connection; `connect` has done it."""
        # Who is refused may be told so before it has said anything: then the answer is there, and tells why.
        with suppress(StreamError):
            await self._send(encode({"type": "start", **options}))
        self.ready = await self._receive()
        if self.ready["type"] != "ready":
            raise self._nonsense(self.ready)

    async def _send(self, message: str | bytes) -> None:
        with self._patience("has read nothing"):
            await self._websocket.send(message)

    async def _receive(self) -> Event:
        with self._patience("has sent nothing"):
            message = await self._websocket.recv()
        try:
            event = json.loads(message)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._nonsense(message)
        if event["type"] == "error" and event.get("fatal", True):
            raise StreamError(event.get("code", "failed"), event.get("message", "The service gave no reason."))
        return event

    @contextmanager
    def _patience(self, complaint: str) -> Iterator[None]:
        """Bounds a wait."""
        # Not with wait_for: before Python 3.12 it can swallow a cancellation that comes together with the result,
        # and a Ctrl-C would be lost.
        timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._give_up, complaint)
        try:
            yield
        except ConnectionClosed as error:
            raise self._closed(error) from error
        finally:
            timer.cancel()

    def _give_up(self, complaint: str) -> None:
        self._overdue = f"The service at {self.url} {complaint} for {PATIENCE_S:g} s."
        self._closing = asyncio.create_task(self.close())

    def _nonsense(self, message: object) -> StreamError:
        return StreamError("not_understood", f"{self.url} does not speak Streamer's protocol: {message!r:.80}")

    def _closed(self, error: ConnectionClosed) -> StreamError:
        if self._overdue:
            return StreamError("overdue", self._overdue)
        closed = error.rcvd
        if closed is None or closed.code == LOST:
            return StreamError("lost", f"The connection to {self.url} was lost.")
        if closed.code == CloseCode.TRY_LATER:
            return StreamError("full", f"The service at {self.url} is full: {closed.reason or 'try again later'}.")
        reason = f"{closed.reason} (code {closed.code})" if closed.reason else f"code {closed.code}"
        return StreamError("closed", f"The service at {self.url} closed the session before its end: {reason}.")


class Opening:
    """A session that is being opened: to be awaited, or entered."""

    def __init__(self, url: str, options: Mapping[str, Any], key: str) -> None:
        self._url = url
        self._key = key
        self._options = options
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session:
            await self._session.close()

    async def _open(self) -> Session:
        with _clear_errors(_shown(self._url)):
            url = websocket_url(self._url)
            websocket = await open_websocket(
                url,
                proxy=None if _is_local(url) else True,
                compression=None,  # sound does not get smaller, and the time is the service's
                open_timeout=CONNECT_S,
                # A busy service reads no further: a ping would wait behind minutes of sound.
                ping_interval=None,
                close_timeout=CLOSE_S,
                additional_headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            )
        session = Session(_shown(url), websocket)
        try:
            await session.start(self._options)
        except BaseException:
            await session.close()
            raise
        return session


@dataclass(frozen=True)
class _Measure:
    """How long sound is: an array has a row for each sample, bytes have a frame."""

    sample_rate: int
    frame_bytes: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _Measure:
        """That of a session which has been accepted with these options."""
        audio = Start(**{name: options[name] for name in ("encoding", "sample_rate", "channels") if name in options})
        return cls(audio.sample_rate, audio.frame_bytes)

    def seconds(self, sound: Sound) -> float:
        frames = len(sound) / self.frame_bytes if isinstance(sound, bytes) else len(sound)
        return frames / self.sample_rate

    def pieces(self, block: Sound, milliseconds: int) -> Iterator[Sound]:
        frames = max(1, self.sample_rate * milliseconds // 1000)
        size = frames * self.frame_bytes if isinstance(block, bytes) else frames
        for start in range(0, len(block), size):
            yield block[start : start + size]


async def _send(
    session: Session, blocks: Iterable[Sound] | AsyncIterable[Sound], measure: _Measure, paced: bool
) -> None:
    """Sends a whole source and `stop`, also when the source fails."""
    loop = asyncio.get_running_loop()
    began = active = loop.time()
    sent_s = 0.0
    try:
        async with aclosing(_read(blocks)) as reading:
            async for block in reading:
                if len(block) == 0:
                    if loop.time() - active > KEEPALIVE_S:
                        await session.keepalive()
                        active = loop.time()
                    continue
                for piece in measure.pieces(block, PACED_MS if paced else LONGEST_MS):
                    sent_s += measure.seconds(piece)
                    if paced:
                        await asyncio.sleep(began + sent_s - loop.time())
                    await session.send(piece)
                active = loop.time()
    except StreamError:
        return  # the events end with the same trouble, and tell it better
    except Exception:
        with suppress(StreamError):
            await session.stop()
        raise
    with suppress(StreamError):
        await session.stop()


async def _read(blocks: Iterable[Sound] | AsyncIterable[Sound]) -> AsyncGenerator[Sound, None]:
    """The blocks, read beside the event loop: a slow disk or a pipe must hold up nobody else."""
    if isinstance(blocks, AsyncIterable):
        async for block in blocks:
            yield block
        return
    loop = asyncio.get_running_loop()
    iterator: Iterator[Sound] = iter(blocks)
    while True:
        reading = loop.run_in_executor(None, next, iterator, None)
        try:
            following = await asyncio.shield(reading)
        except asyncio.CancelledError:
            # The thread is still in the file, which is closed as soon as we return.
            with suppress(Exception):
                await reading
            raise
        if following is None:
            return
        yield following


@contextmanager
def _clear_errors(address: str) -> Iterator[None]:
    """Everything that can happen while a connection is opened as a StreamError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:  # a ValueError and an OSError, too
        untrusted = f"The certificate of {address} is not trusted ({error.verify_message})"
        raise StreamError("untrusted", f"{untrusted}: SSL_CERT_FILE names a file of roots to trust.") from error
    except (ValueError, InvalidURI) as error:
        raise StreamError("bad_address", str(error)) from error
    except InvalidStatus as error:
        status = error.response.status_code
        later = error.response.headers.get("Retry-After")
        advice = f"; try again in {later} s" if later else ""
        raise StreamError("refused", f"{address} answered with HTTP status {status}{advice}.") from error
    except InvalidHandshake as error:
        raise StreamError("no_service", f"{address} is there, but it is no websocket: {error}.") from error
    except (asyncio.TimeoutError, TimeoutError) as error:
        raise StreamError("away", f"{address} did not answer within {CONNECT_S:g} s.") from error
    except OSError as error:
        raise StreamError("away", f"No service answers at {address}: {_reason(error)}.") from error


def _reason(error: OSError) -> str:
    """The system's words without its numbers."""
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return (error.strerror or str(error) or type(error).__name__).strip().rstrip(".")


def _shown(url: str) -> str:
    """An address for people: without its query, which may hold a key."""
    return url.partition("?")[0]


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
