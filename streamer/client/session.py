"""An open session of the native protocol, asynchronous: sound in, events out, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, cast

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from streamer.client.connection import SessionError
from streamer.client.events import Event, Ready
from streamer.client.kept_audio import Entry, Flush, KeptAudio
from streamer.client.sending import Sound, declared
from streamer.wire.errors import CloseCode
from streamer.wire.native import encode
from streamer.wire.options import Start

# The service acknowledges sound twice a second and closes a silent session itself: so much of nothing is a
# fault.
PATIENCE_S: Final = 90.0
LOST: Final = 1006  # what a closed connection has for a code when nobody said goodbye
# What something on the way says that goes away or starts again; the service itself says none of these.
LOST_ON_THE_WAY: Final = (LOST, 1001, 1012, 1014)
# A lost connection is made again for so long, with pauses that grow. The service's own limit is the same by default.
RESUME_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.1
REFUSED_FOR_NOW: Final = ("full", "too_many_sessions")  # which passes, also for a session that is there already
LONGEST_PAUSE_S: Final = 3.0


class Session:
    """An open session: send sound while iterating over its events."""

    def __init__(
        self, url: str, websocket: ClientConnection, redial: Callable[[], Awaitable[ClientConnection]] | None = None
    ) -> None:
        """`redial` makes another connection; without it the session ends with the first."""
        self.url = url
        self.ready: Ready = cast(Ready, {})
        self._websocket = websocket
        self._redial = redial
        self._kept = KeptAudio(Start())
        self._sending = asyncio.Lock()
        self._mending = asyncio.Lock()
        self._catching_up: asyncio.Task[None] | None = None
        self._seen = 0  # the number of the last event
        self._left = False
        self._done = False
        self._overdue = ""
        self._closing: asyncio.Task[None] | None = None

    async def send(self, sound: Sound) -> None:
        """Sends sound (int16 mono 16 kHz unless declared otherwise); waits while the service reads no more."""
        data = sound if isinstance(sound, bytes) else sound.astype("<i2", copy=False).tobytes()
        self._kept.add(data)
        await self._catch_up()

    async def flush(self) -> None:
        """Asks that everything so far becomes final now; answered by a `flushed` event."""
        self._kept.flush()
        await self._catch_up()

    async def keepalive(self) -> None:
        """Keeps the session open while there is no sound."""
        await self._send(self._websocket, encode({"type": "keepalive"}))

    async def stop(self) -> None:
        """Says that there is no more sound; the remaining events follow."""
        self._kept.stop()
        await self._catch_up()

    async def close(self) -> None:
        """Closes the connection, whatever is still on its way."""
        self._left = True
        await self._websocket.close()
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._done:
            raise StopAsyncIteration
        while True:
            event = await self._receive(self._websocket)
            if event is None:
                continue  # over another connection
            number = event.get("n")
            if isinstance(number, int):
                if number <= self._seen:
                    continue
                self._seen = number
            if isinstance(event.get("audio_ms"), int):
                self._kept.heard(event["audio_ms"])
            self._done = event["type"] == "done"
            return cast(Event, event)

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self, options: Mapping[str, Any]) -> None:
        """Opens the session on a new connection; `connect` has done it."""
        # Who is refused may be told so before it has said anything: then the answer is there, and tells why.
        with suppress(SessionError):
            await self._send(self._websocket, encode({"type": "start", **options}))
        ready = await self._receive(self._websocket)
        if ready is None or ready["type"] != "ready":
            raise self._nonsense(ready)
        self.ready = cast(Ready, ready)
        self._seen = ready.get("n", 1)
        self._kept = KeptAudio(declared(options))

    async def _catch_up(self) -> None:
        """Sends what is on the kept, over as many connections as it takes."""
        async with self._sending:
            while (entry := self._kept.next()) is not None:
                websocket = self._websocket
                # What went into a connection that has been replaced meanwhile is sent again.
                if await self._send(websocket, _message(entry)) and websocket is self._websocket:
                    self._kept.sent()

    async def _send(self, websocket: ClientConnection, message: str | bytes) -> bool:
        """Whether it could be sent; if not, there is another connection now."""
        try:
            with self._patience("has read nothing"):
                await websocket.send(message)
        except ConnectionClosed as error:
            await self._mend(websocket, error)
            return False
        return True

    async def _mend(self, websocket: ClientConnection, error: ConnectionClosed) -> None:
        """Another connection in the place of this one, which was lost; SessionError if there is none to be had."""
        async with self._mending:
            if self._websocket is not websocket:
                return
            lost = self._closed(error)
            if lost.code != "lost" or self._left or self._redial is None or "token" not in self.ready:
                raise lost from error
            until, pause = asyncio.get_running_loop().time() + RESUME_S, FIRST_PAUSE_S
            redial, self._redial = self._redial, None
            while not await self._resume(redial, until, lost):
                if asyncio.get_running_loop().time() + pause > until or self._left:
                    raise lost from error
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            self._redial = redial
        # Beside the one who reads: the service may read no further before its events are read.
        self._catching_up = asyncio.create_task(self._catch_up_quietly())

    async def _catch_up_quietly(self) -> None:
        with suppress(SessionError):  # whoever reads is told
            await self._catch_up()

    async def _resume(
        self, redial: Callable[[], Awaitable[ClientConnection]], until: float, lost: SessionError
    ) -> bool:
        """Whether another connection has the session now; `lost` is raised if none can have it."""
        loop = asyncio.get_running_loop()
        try:
            websocket = await redial()
        except SessionError:
            return False
        timer = loop.call_at(until, websocket.transport.abort)
        resumed = False
        try:
            resume = {"token": self.ready["token"], "after": self._seen}
            await websocket.send(encode({"type": "start", "resume": resume}))
            ready = self._read(await websocket.recv())
            if ready["type"] != "ready" or not self._kept.rewind(ready.get("from_sample", -1), ready.get("flushes", 0)):
                raise self._nonsense(ready)
            if not self._left:
                resumed, self._websocket = True, websocket
        except SessionError as error:
            if error.code not in REFUSED_FOR_NOW:
                raise lost from error
        except ConnectionClosed:
            pass
        finally:
            timer.cancel()
            if not resumed:
                await websocket.close()
        return resumed

    async def _receive(self, websocket: ClientConnection) -> dict[str, Any] | None:
        """The next event; None if there is another connection now."""
        try:
            with self._patience("has sent nothing"):
                message = await websocket.recv()
        except ConnectionClosed as error:
            await self._mend(websocket, error)
            return None
        return self._read(message)

    def _read(self, message: str | bytes) -> dict[str, Any]:
        event: Any
        try:
            event = json.loads(message)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise self._nonsense(message)
        if event["type"] == "error" and event.get("fatal", True):
            raise SessionError(event.get("code", "failed"), event.get("message", "The service gave no reason."))
        return event

    @contextmanager
    def _patience(self, complaint: str) -> Iterator[None]:
        """Bounds a wait."""
        # Not with wait_for: before Python 3.12 it can swallow a cancellation that comes together with the result,
        # and a Ctrl-C would be lost.
        timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._give_up, complaint)
        try:
            yield
        finally:
            timer.cancel()

    def _give_up(self, complaint: str) -> None:
        self._overdue = f"The service at {self.url} {complaint} for {PATIENCE_S:g} s."
        self._closing = asyncio.create_task(self.close())

    def _nonsense(self, message: object) -> SessionError:
        return SessionError("not_understood", f"{self.url} does not speak Streamer's protocol: {message!r:.80}")

    def _closed(self, error: ConnectionClosed) -> SessionError:
        if self._overdue:
            return SessionError("overdue", self._overdue)
        closed = error.rcvd
        if closed is None or closed.code in LOST_ON_THE_WAY:
            return SessionError("lost", f"The connection to {self.url} was lost.")
        if closed.code == CloseCode.TRY_LATER:
            return SessionError("full", f"The service at {self.url} is full: {closed.reason or 'try again later'}.")
        reason = f"{closed.reason} (code {closed.code})" if closed.reason else f"code {closed.code}"
        return SessionError("closed", f"The service at {self.url} closed the session before its end: {reason}.")


def _message(entry: Entry) -> str | bytes:
    if isinstance(entry, bytes):
        return entry
    return encode({"type": "flush" if isinstance(entry, Flush) else "stop"})
