"""A client that carries out a plan, whatever happens to its connections, and records all events."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from workshop.soak.session_plan import STOP, Action, Audio, Item, Raw, SessionPlan, Text

Event = dict[str, Any]

# Temporary refusals. The client tries again, sooner than the service says.
PASSING = ("full", "not_ready")
PAUSE_S = (0.2, 1.0)
# Every wait of the service has a limit. A session that takes longer than this hangs.
PATIENCE_S = 150.0
ANSWER_S = 60.0
SMALL_BUFFER = 4096


@dataclass
class SessionRecord:
    """The record of a plan that was carried out."""

    plan: SessionPlan
    began: float = 0.0  # seconds since the beginning of the run
    over: float = 0.0
    ended: str = ""  # "done", the code of an error, the code of a close without an error, or what the client did
    error: Event = field(default_factory=dict)
    close_code: int | None = None
    sent: int = 0  # bytes of audio
    flushes: int = 0
    events: list[tuple[float, Event]] = field(default_factory=list)  # without repetitions
    refusals: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    # Of a client that finds back by itself: the last message before it lost its service, and the one with which as much
    # audio was heard again.
    outages: list[tuple[float, float]] = field(default_factory=list)
    connections: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # violations of the protocol


class _Connection:
    """One connection, from its `start` on."""

    def __init__(self, websocket: ClientConnection, last: int) -> None:
        self.websocket = websocket
        self.last = last  # the number of the last message that it received
        self.code: int | None = None  # the code of its close; None while it is open, or if it ended without a close
        self.reading: asyncio.Task[None] | None = None


class ScriptedClient:
    """Carries out one plan."""

    def __init__(self, plan: SessionPlan, url: str, began: float) -> None:
        """`began`: the beginning of the run, as time.monotonic()."""
        self.record = SessionRecord(plan)
        self._plan, self._url, self._began = plan, url, began
        self._rng = random.Random(f"{plan.seed} {plan.number} client")
        self._next = 0  # the index of the next item
        self._furthest = 0
        self._skip = 0  # bytes of the next item that the service has already
        self._paced_since: float | None = None
        self._token = ""
        self._newest = 0
        self._messages: dict[int, Event] = {}
        self._older: _Connection | None = None
        self._listening = asyncio.Event()
        self._listening.set()

    async def run(self) -> SessionRecord:
        """Carry out the plan, and return the record."""
        self.record.began = self._now()
        try:
            await asyncio.wait_for(self._run(), PATIENCE_S)
        except asyncio.TimeoutError:
            self.record.ended = "stuck"
        finally:
            self.record.over = self._now()
            self.record.events.sort(key=lambda entry: entry[1]["n"])
        return self.record

    async def _run(self) -> None:
        while not self.record.ended:
            connection = await self._open()
            if connection is None:
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
                continue
            try:
                await self._use(connection)
            finally:
                if connection is not self._older:
                    await _hang_up(connection)

    async def _use(self, connection: _Connection) -> None:
        """Use one connection until it ends."""
        assert connection.reading is not None
        sending = asyncio.create_task(self._send_items(connection))
        if self._older is not None:
            await self._end_older(self._older)
        try:
            await asyncio.wait({connection.reading, sending}, return_when=asyncio.FIRST_COMPLETED)
            action = None
            if sending.done():
                action = sending.result()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if action is None:
            await connection.reading
            self._note_end(connection)
            return
        self.record.actions[action.what] += 1
        if action.what == "takeover":
            self._older = connection
        elif action.what == "leave":
            await connection.websocket.close()
            self.record.ended = self.record.ended or "left"
        else:
            connection.websocket.transport.abort()
            await connection.reading
            if action.what == "vanish":
                self.record.ended = self.record.ended or "vanished"
            elif self._complete:
                self._note_end(connection)
            else:
                await asyncio.sleep(action.seconds)

    async def _end_older(self, older: _Connection) -> None:
        """Check that the service closes a connection that was taken over, with the right code."""
        self._older = None
        assert older.reading is not None
        await asyncio.wait({older.reading}, timeout=15)
        if older.code != 4010 and not self._complete:
            self.record.wrong.append(f"the older connection ended with code {older.code}, not 4010")
        await _hang_up(older)

    async def _open(self) -> _Connection | None:
        """Open a connection that is ready; None if that is not possible now, or the session has ended."""
        record, resuming = self.record, bool(self._token)
        try:
            websocket = await self._dial()
        except (OSError, InvalidHandshake, asyncio.TimeoutError) as error:
            record.connections.append((self._now(), f"not made: {error!r}"))
            return None
        after = max(1, self._newest - self._rng.choice((0, 0, 0, 1, 4)))
        connection = _Connection(websocket, after if resuming else 0)
        start: dict[str, Any] = {"type": "start", **self._plan.options}
        if resuming:
            start = {"type": "start", "resume": {"token": self._token, "after": after}}
        try:
            if self._plan.kind != "no_start":
                await websocket.send(json.dumps(start))
            if self._plan.eager and not resuming and isinstance(first := self._plan.items[0], Audio):
                record.sent = max(record.sent, first.end)
                await websocket.send(self._plan.audio[first.begin : first.end])
                self._next = 1
            greeting = json.loads(await asyncio.wait_for(websocket.recv(), ANSWER_S))
        except (ConnectionClosed, asyncio.TimeoutError) as error:
            record.connections.append((self._now(), f"no greeting: {error!r}"))
            greeting = {"type": "error", "code": "not_ready"}
        record.connections.append((self._now(), f"{'resumed' if resuming else 'started'}: {greeting}"))
        if greeting["type"] != "ready":
            await self._refused(connection, greeting)
            return None
        if resuming:
            record.resumes += 1
            if greeting["n"] != after:
                record.wrong.append(f"resumed after message {after}, but `ready` has number {greeting['n']}")
            self._rewind(greeting["from_sample"] * self._plan.frame_bytes, greeting["flushes"])
        else:
            self._token = greeting["token"]
            self._note(connection, greeting)
        connection.reading = asyncio.create_task(self._read(connection))
        return connection

    async def _refused(self, connection: _Connection, greeting: Event) -> None:
        record = self.record
        self._next = 0 if not self._token else self._next
        with suppress(ConnectionClosed, asyncio.TimeoutError):
            while True:
                await asyncio.wait_for(connection.websocket.recv(), ANSWER_S)
        await _hang_up(connection)
        code = greeting.get("code", "")
        if code in PASSING:
            record.refusals[code] += 1
        elif self._complete and self._older is not None:
            await self._end_older(self._older)  # the session ended over the older connection before it was taken over
            record.ended = str(record.error.get("code", "done"))
        else:
            record.ended, record.error, record.close_code = code, greeting, connection.websocket.close_code

    async def _dial(self) -> ClientConnection:
        settings: dict[str, Any] = {}
        if self._plan.kind == "unread":
            # With small buffers the service notices sooner that the client does not read.
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            sock.setblocking(False)
            parts = urlsplit(self._url)
            await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
            settings = {"sock": sock, "max_queue": 1}
        return await connect(
            self._url,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=30,
            close_timeout=5,
            proxy=None,
            **settings,
        )

    async def _read(self, connection: _Connection) -> None:
        try:
            while True:
                await self._listening.wait()
                self._note(connection, json.loads(await connection.websocket.recv()))
        except ConnectionClosed as error:
            connection.code = error.rcvd.code if error.rcvd is not None else None
            self.record.connections.append((self._now(), f"closed: {error}"))

    def _note(self, connection: _Connection, event: Event) -> None:
        number = event["n"]
        if number != connection.last + 1:
            self.record.wrong.append(f"message {number} came after message {connection.last}")
        connection.last = number
        earlier = self._messages.get(number)
        if earlier is None:
            self._messages[number] = event
            self.record.events.append((self._now(), event))
        elif earlier != event:
            self.record.wrong.append(f"message {number} has changed since it was first received")
        self._newest = max(self._newest, number)
        if event["type"] == "error" and event["fatal"]:
            self.record.error = event

    @property
    def _complete(self) -> bool:
        last = self._messages.get(self._newest, {"type": ""})
        return last["type"] == "done" or bool(self.record.error)

    def _note_end(self, connection: _Connection) -> None:
        """Note why the connection was closed, and whether that is the end of the session."""
        record = self.record
        record.close_code = connection.code
        if record.error:
            record.ended = record.error["code"]
        elif self._complete:
            record.ended = "done"
        elif connection.code is not None:
            record.ended = str(connection.code)
        elif "lost" in self._plan.ends:
            record.ended = "lost"
        else:
            record.wrong.append("a connection was lost although neither the plan nor the service closed it")

    async def _send_items(self, connection: _Connection) -> Action | None:
        """Send the next items. Returns an action that ends the connection; None if the service ends it."""
        plan = self._plan
        with suppress(ConnectionClosed):  # the reading task notes the reason
            while self._next < len(plan.items):
                item, skip = plan.items[self._next], self._skip
                fresh = self._next >= self._furthest
                self._next, self._skip = self._next + 1, 0
                self._furthest = max(self._furthest, self._next)
                if isinstance(item, Action):
                    if fresh and item.what not in ("sleep", "stop_reading"):
                        return item
                    if fresh:
                        await self._do(item)
                else:
                    await self._send(connection.websocket, item, skip)
        await asyncio.Event().wait()  # until the connection ends
        return None

    async def _do(self, action: Action) -> None:
        self.record.actions[action.what] += 1
        if action.what == "sleep":
            await asyncio.sleep(action.seconds)
        else:
            self._listening.clear()
            asyncio.get_running_loop().call_later(action.seconds, self._listening.set)

    async def _send(self, websocket: ClientConnection, item: Item, skip: int) -> None:
        record, plan = self.record, self._plan
        if isinstance(item, Text):
            if item.flush is not None:
                record.flushes = max(record.flushes, item.flush + 1)
            await websocket.send(item.text)
        elif isinstance(item, Raw):
            if "too_fast" in plan.ends:
                record.sent += len(item.data)
            await websocket.send(item.data, text=item.text)
        elif isinstance(item, Audio):
            if plan.pace is not None:
                await self._keep_pace(item.end / plan.bytes_per_ms / 1000 / plan.pace)
            record.sent = max(record.sent, item.end)
            await websocket.send(plan.audio[item.begin + skip : item.end])

    async def _keep_pace(self, due: float) -> None:
        now = time.monotonic()
        if self._paced_since is None:
            self._paced_since = now
        await asyncio.sleep(self._paced_since + due - now)

    def _rewind(self, offset: int, flushes: int) -> None:
        """Go back to the first item that the service does not have yet."""
        if offset > self.record.sent:
            self.record.wrong.append(f"the service reports {offset} bytes of audio, but {self.record.sent} were sent")
        self._skip = 0
        for number, item in enumerate(self._plan.items):
            self._next = number
            if isinstance(item, Audio) and item.end > offset:
                self._skip = max(0, offset - item.begin)
                return
            if item == STOP or (isinstance(item, Text) and item.flush is not None and item.flush >= flushes):
                return
            if number >= self._furthest:
                return
        self._next = len(self._plan.items)

    def _now(self) -> float:
        return time.monotonic() - self._began


async def _hang_up(connection: _Connection) -> None:
    connection.websocket.transport.abort()
    if connection.reading is not None:
        connection.reading.cancel()
        await asyncio.gather(connection.reading, return_exceptions=True)
