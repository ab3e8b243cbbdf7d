"""One session in each format: it is opened, gets audio, and tells what it hears with the times of its words."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from streamer.client import KEY_VARIABLE, Session, SessionError, connect
from streamer.wire.dialects import sherpa_onnx

SAMPLE_RATE: Final = 16_000
CLOSE_S: Final = 2.0
RETRY_S: Final = 5.0  # the pause after a refusal that does not say when to try again
_RETRY: Final = re.compile(r"try again in (\d+) s")
_TRY_LATER: Final = 1013
_DONE: Final = 1000
_TOO_MANY, _UNAVAILABLE = 429, 503


class Refused(Exception):
    """The service did not open the session. `code` says why, and `retry_s` when to try again."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code
        found = _RETRY.search(message)
        self.retry_s = float(found[1]) if found else RETRY_S


class Failed(Exception):
    """The session ended before its end. `code` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Kind(Enum):
    """What a session is told."""

    PARTIAL = "partial"
    FINAL = "final"
    RECOVERED = "recovered"
    END = "end"  # all words are known


@dataclass(frozen=True)
class Heard:
    """What a message says. Times are seconds of the audio of the session."""

    kind: Kind
    words: tuple[str, ...] = ()
    covered_s: float | None = None  # the end of the audio that was recognised
    ends_s: tuple[float, ...] = ()  # the end of each word of a final


class Conversation(Protocol):
    """One session. Iterate over it until it ends in order; Failed if it does not."""

    async def open(self) -> None:
        """Open the session. Refused if that fails."""

    async def send(self, audio: bytes) -> None:
        """Send samples: int16, mono, 16 kHz."""

    async def stop(self) -> None:
        """Say that there is no more audio."""

    def __aiter__(self) -> AsyncIterator[Heard]:
        """Yield what is heard."""

    async def close(self) -> None:
        """Close the connection, whatever was said."""


class NativeConversation:
    """A live session of the native protocol, with the client of this project."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._opening = connect(url, {"live": True, **options})
        self._session: Session | None = None

    async def open(self) -> None:
        """Open the session. Refused if that fails."""
        try:
            self._session = await self._opening
        except SessionError as error:
            raise Refused(error.code, str(error)) from error

    async def send(self, audio: bytes) -> None:
        """Send samples."""
        try:
            await self._opened.send(audio)
        except SessionError as error:
            raise Failed(error.code) from error

    async def stop(self) -> None:
        """Say that there is no more audio."""
        try:
            await self._opened.stop()
        except SessionError as error:
            raise Failed(error.code) from error

    async def __aiter__(self) -> AsyncIterator[Heard]:
        try:
            async for event in self._opened:
                heard = _of_event(event)
                if heard is not None:
                    yield heard
        except SessionError as error:
            raise Failed(error.code) from error

    async def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            await self._session.close()

    @property
    def _opened(self) -> Session:
        assert self._session is not None
        return self._session


def _of_event(event: Mapping[str, Any]) -> Heard | None:
    if event["type"] == "partial":
        return Heard(Kind.PARTIAL, tuple(event["text"].split()), event["audio_ms"] / 1000)
    if event["type"] == "final":
        words = event.get("words") or []
        texts = tuple(word.get("spoken") or word["word"] for word in words)
        ends = tuple(word["end_ms"] / 1000 for word in words)
        return Heard(Kind.FINAL, texts or tuple(event["text"].split()), event["audio_ms"] / 1000, ends)
    if event["type"] == "done":
        return Heard(Kind.END)
    return Heard(Kind.RECOVERED) if event["type"] in ("recovered", "restarted") else None


class _WebsocketConversation:
    """What the formats of other services have in common. Such a session has one connection."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers
        self._websocket: ClientConnection | None = None

    async def open(self) -> None:
        """Open the connection. Refused if that fails."""
        try:
            self._websocket = await open_websocket(
                self._url,
                proxy=None,
                compression=None,
                ping_interval=None,
                close_timeout=CLOSE_S,
                additional_headers=self._headers,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            retry = error.response.headers.get("Retry-After")
            code = "full" if status in (_TOO_MANY, _UNAVAILABLE) else f"status {status}"
            raise Refused(code, f"try again in {retry} s" if retry else "") from error
        except InvalidHandshake as error:
            raise Refused("no_service", str(error)) from error
        except (OSError, asyncio.TimeoutError) as error:
            raise Refused("away", str(error)) from error

    async def send(self, audio: bytes) -> None:
        """Send samples."""
        await self._say(audio)

    async def close(self) -> None:
        """Close the connection."""
        if self._websocket is not None:
            await self._websocket.close()

    async def _say(self, message: str | bytes) -> None:
        assert self._websocket is not None
        try:
            await self._websocket.send(message)
        except ConnectionClosed as error:
            raise self._failure() from error

    def _failure(self) -> Exception:
        assert self._websocket is not None
        code, reason = self._websocket.close_code, self._websocket.close_reason or ""
        if code == _TRY_LATER:
            return Refused("full", reason)
        return Failed("lost" if code in (None, 1006) else f"close {code}")


class DeepgramConversation(_WebsocketConversation):
    """A session in the format of Deepgram, with partials."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        query = {"encoding": "linear16", "sample_rate": SAMPLE_RATE, "channels": 1, "interim_results": "true"}
        key = os.environ.get(KEY_VARIABLE, "")
        address = f"{_site(url)}/v1/listen?{urlencode({**query, **options})}"
        super().__init__(address, {"Authorization": f"Token {key}"} if key else {})

    async def stop(self) -> None:
        """Say that there is no more audio."""
        await self._say('{"type":"CloseStream"}')

    async def __aiter__(self) -> AsyncIterator[Heard]:
        assert self._websocket is not None
        try:
            async for text in self._websocket:
                message = json.loads(text)
                if message["type"] == "Results" and (heard := _of_results(message)) is not None:
                    yield heard
                elif message["type"] == "Metadata":
                    yield Heard(Kind.END)
        except ConnectionClosed as error:
            raise self._failure() from error
        if self._websocket.close_code != _DONE:
            raise self._failure()


def _of_results(message: Mapping[str, Any]) -> Heard | None:
    best = message["channel"]["alternatives"][0]
    words = best["words"]
    if not words:
        return None
    return Heard(
        Kind.FINAL if message["is_final"] else Kind.PARTIAL,
        tuple(word["word"] for word in words),
        message["start"] + message["duration"],
        tuple(word["end"] for word in words) if message["is_final"] else (),
    )


class SherpaConversation(_WebsocketConversation):
    """A session in the format of sherpa-onnx. Its own server takes any path, so the one of this service is right."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        address = f"{_site(url)}{sherpa_onnx.PATH}"
        key = os.environ.get(KEY_VARIABLE, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(f"{address}?{urlencode(options)}" if options else address, headers)

    async def send(self, audio: bytes) -> None:
        """Send samples, which this server takes as fractions from -1 to 1."""
        await self._say((np.frombuffer(audio, "<i2").astype("<f4") / 32_768).tobytes())

    async def stop(self) -> None:
        """Say that there is no more audio."""
        await self._say(sherpa_onnx.END)

    async def __aiter__(self) -> AsyncIterator[Heard]:
        assert self._websocket is not None
        try:
            async for text in self._websocket:
                if text == sherpa_onnx.ENDED:  # after this the server waits for us to close
                    yield Heard(Kind.END)
                    return
                yield _of_sherpa(sherpa_onnx.Result.of_text(str(text)))
        except ConnectionClosed as error:
            raise self._failure() from error
        raise self._failure()


def _of_sherpa(result: sherpa_onnx.Result) -> Heard:
    words, ends = list[str](), list[float]()
    for token, at in zip(result.tokens, result.timestamps, strict=False):
        if token.startswith(sherpa_onnx.BEGINS_WORD) or not words:
            words.append("")
            ends.append(0.0)
        words[-1] += token.strip("".join(sherpa_onnx.BEGINS_WORD))
        ends[-1] = result.start_time + at
    kind = Kind.FINAL if result.is_final else Kind.PARTIAL
    return Heard(kind, tuple(words), None, tuple(ends) if result.is_final else ())


def _site(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


# The formats by name, as `--format` has them.
CONVERSATIONS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Conversation]]] = {
    "native": NativeConversation,
    "deepgram": DeepgramConversation,
    "sherpa-onnx": SherpaConversation,
}
