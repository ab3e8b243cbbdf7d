"""Websockets with several sessions, one after another: a step `start` begins each of them, and STOP ends it.

In between, the websocket rests: it has its place in its caller's quota, but no slot of the recogniser.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from streamer.bridge.access.quotas import Admittance
from streamer.bridge.dialects.dialect_client import DialectClient
from streamer.bridge.http.websocket import SEND_LIMIT_S, ConnectionEnded, NotRead, WebSocket
from streamer.bridge.session.endings import shutting_down
from streamer.bridge.session.outbox import Numbered
from streamer.bridge.sessions import Sessions
from streamer.bridge.upstreams.admission import Refused
from streamer.wire.dialects.dialect import STOP, Dialect, Hangup, Reply, Step
from streamer.wire.errors import CloseCode

# If a client sends nothing for this time, its session ends and gives its slot back; another one begins with its next
# audio. If the idle limit of sessions is shorter than twice this time, half of that limit counts.
REST_AFTER_S: Final = 30.0
# The websocket of a client that sends nothing for this time is closed.
LONGEST_REST_S: Final = 3600.0
# The most websockets that rest at a time; further ones are refused.
MOST_RESTING: Final = 256


class Talk:
    """One websocket for all of its sessions: the steps of its dialect, and texts for its client in the right order."""

    def __init__(self, websocket: WebSocket, dialect: Dialect) -> None:
        self.websocket = websocket
        self.dialect = dialect
        self._steps: Iterator[Step] = iter(dialect.greet())
        self._texts: deque[str] = deque()  # at most the texts of one step and of one message
        self._sending = asyncio.Lock()

    async def next(self, limit_s: float) -> str | bytes:
        """Wait for the next step for a session. Raise ConnectionEnded, or TimeoutError if the client sends nothing."""
        while True:
            for step in self._steps:
                if isinstance(step, (str, bytes)):
                    return step
                await self._do(step)
            message = await asyncio.wait_for(self.websocket.receive(), limit_s)
            self._steps = iter(self.dialect.receive(message))

    def rest(self) -> None:
        """End the present session, because its client sends nothing."""
        self._steps = iter(self.dialect.rest())

    async def say(self, texts: Iterable[str], deadline: float) -> None:
        """Send texts, in the order in which the dialect made them, even if two tasks call this at the same time."""
        self._texts.extend(texts)
        async with self._sending:
            while self._texts:
                await self.websocket.say(self._texts.popleft(), deadline)

    async def end(self, code: str, message: str, close_code: int, reason: str) -> None:
        """Close a resting websocket, after a message that says why."""
        try:
            await self.say(self.dialect.fail(code, message), _deadline())
        except (NotRead, ConnectionEnded):
            self.websocket.abort()
        self.websocket.close(*self.dialect.close(close_code, reason))

    async def _do(self, step: Reply | Hangup) -> None:
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
        super().__init__(talk.websocket, talk.dialect, None)
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
            try:
                step = await self._talk.next(self._rest_after_s)
            except asyncio.TimeoutError:
                self._talk.rest()
                continue
            self._stopped = step == STOP
            return step
        await self._over.wait()
        raise ConnectionEnded

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

    async def drop(self, code: CloseCode, reason: str) -> None:
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
            raise Refused("busy", f"{MOST_RESTING} connections send no audio, the maximum; try again later.")

    async def converse(self, websocket: WebSocket, dialect: Dialect, admittance: Admittance) -> None:
        """Open one session after another, until the websocket ends."""
        talk = Talk(websocket, dialect)
        rest_after_s = min(REST_AFTER_S, self._sessions.idle_s / 2)
        while True:
            client = SuccessiveClient(talk, await self._next_start(talk), rest_after_s)
            key, protocol = admittance.caller.key, dialect.protocol
            driver = self._sessions.open(client, admittance.lend(), key, protocol=protocol, resumable=False)
            await driver.read(client)
            if not client.finished:
                return

    def drain(self) -> None:
        """Close the resting websockets, because the service shuts down. The others are closed after their sessions."""
        self._draining = True
        for talk in list(self._resting):
            self._dismiss(talk)

    def _dismiss(self, talk: Talk) -> None:
        ending = shutting_down()
        end = asyncio.create_task(talk.end(ending.code, ending.message, ending.close_code, ending.close.reason))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)

    async def _next_start(self, talk: Talk) -> str:
        """Wait for the start of the next session. Raise ConnectionEnded if none comes."""
        self._resting.add(talk)
        if self._draining:
            self._dismiss(talk)
        try:
            step = await talk.next(LONGEST_REST_S)
        except asyncio.TimeoutError:
            reason = f"Nothing came for {LONGEST_REST_S:g} s; connect again when there is audio."
            await talk.end("session_expired", reason, CloseCode.DONE, reason)
            raise ConnectionEnded from None
        finally:
            self._resting.discard(talk)
        assert isinstance(step, str), "a session begins with its start"
        return step


def _deadline() -> float:
    return asyncio.get_running_loop().time() + SEND_LIMIT_S


async def _done() -> None:
    return
