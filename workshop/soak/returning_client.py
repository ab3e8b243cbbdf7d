"""Carries out a plan with the client of `streamer.client`, which finds back to its session, and records all events.

The scripted client (`scripted_client.py`) tests the protocol itself. This one tests what users have: a session that
outlives its connection and its bridge.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress

from streamer.client import Session, SessionError
from streamer.client.connection import Connection, dial
from streamer.client.recovery import PASSING
from workshop.soak.scripted_client import Event, SessionRecord
from workshop.soak.session_check import RESTARTED
from workshop.soak.session_plan import KEEPALIVE, STOP, Action, Audio, Item, SessionPlan, Text

PAUSE_S = (0.3, 1.5)
# A session of a minute, whose client tries for a minute to find back, more than once.
PATIENCE_S = 400.0


class ReturningClient:
    """Carries out one plan."""

    def __init__(self, plan: SessionPlan, url: str, began: float) -> None:
        """`began`: the beginning of the run, as time.monotonic()."""
        self.record = SessionRecord(plan)
        self._plan, self._url, self._began = plan, url, began
        self._rng = random.Random(f"{plan.seed} {plan.number} client")
        self._connections: list[Connection] = []  # of the session, the last one is in use
        self._heard_ms = 0
        self._last_at = 0.0  # when the last message came
        self._lost: tuple[float, int] | None = None  # since when it is without its service, and how much was heard then
        self._closing: asyncio.Task[None] | None = None

    async def run(self) -> SessionRecord:
        """Carry out the plan, and return the record."""
        record = self.record
        record.began = self._now()
        try:
            await asyncio.wait_for(self._run(), PATIENCE_S)
        except asyncio.TimeoutError:
            record.ended = "stuck"
        finally:
            record.over = self._now()
        return record

    async def _run(self) -> None:
        session = await self._open()
        if session is None:
            return
        self._note({"type": "ready", **session.ready})
        sending = asyncio.create_task(self._send_items(session))
        try:
            async for event in session:
                self._note(dict(event))
            self.record.ended = self.record.ended or "done"
        except SessionError as error:
            self.record.connections.append((self._now(), f"ended: {error}"))
            self.record.ended = self.record.ended or error.code
        finally:
            sending.cancel()
            [failure] = await asyncio.gather(sending, return_exceptions=True)
            if isinstance(failure, Exception):
                self.record.ended = f"sending failed: {failure!r}"
            await session.close()
            if self._closing is not None:
                await self._closing
        self.record.resumes = max(0, len(self._connections) - 1)

    async def _open(self) -> Session | None:
        """Open the session, however long that takes; None if the service refuses it for good."""
        while True:
            try:
                session = Session(await self._dial())
                await session.start(self._plan.options, self._dial, resume=True, restart=True)
            except SessionError as error:
                self.record.connections.append((self._now(), f"refused: {error}"))
                for connection in self._connections:
                    await connection.close()
                self._connections.clear()
                self._lost = None
                if error.code not in PASSING:
                    self.record.ended = error.code
                    return None
                self.record.refusals[error.code] += 1
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            else:
                return session

    async def _dial(self) -> Connection:
        if self._connections and self._lost is None:
            self._lost = self._last_at, self._heard_ms
        connection = await dial(self._url, "")
        self.record.connections.append((self._now(), "connected"))
        self._connections.append(connection)
        return connection

    def _note(self, event: Event) -> None:
        now = self._now()
        self.record.events.append((now, event))
        if event["type"] == RESTARTED:
            self.record.actions[RESTARTED] += event.get("channel", 0) == 0
            return
        heard_ms = event.get("audio_ms", 0)
        if self._lost is not None and heard_ms >= self._lost[1] and (heard_ms or event["type"] == "done"):
            self.record.outages.append((self._lost[0], now))
            self._lost = None
        self._heard_ms = max(self._heard_ms, heard_ms)
        self._last_at = now

    async def _send_items(self, session: Session) -> None:
        """Send everything. How the session ends is seen by who reads its events."""
        began = time.monotonic()
        with suppress(SessionError):
            for item in self._plan.items:
                if isinstance(item, Action):
                    await self._do(item, session)
                    if self.record.ended:
                        return
                else:
                    await self._send(item, session, began)

    async def _send(self, item: Item, session: Session, began: float) -> None:
        record, plan = self.record, self._plan
        if isinstance(item, Audio):
            if plan.pace is not None:
                await asyncio.sleep(began + item.end / plan.bytes_per_ms / 1000 / plan.pace - time.monotonic())
            record.sent = max(record.sent, item.end)
            await session.send(plan.audio[item.begin : item.end])
        elif item == STOP:
            await session.stop()
        elif item == KEEPALIVE:
            await session.keepalive()
        elif isinstance(item, Text) and item.flush is not None:
            record.flushes = max(record.flushes, item.flush + 1)
            await session.flush()

    async def _do(self, action: Action, session: Session) -> None:
        self.record.actions[action.what] += 1
        if action.what == "sleep":
            await asyncio.sleep(action.seconds)
        elif action.what == "cut":
            self._connections[-1].abort()
        else:  # it goes for good, with or without a word
            self.record.ended = "vanished" if action.what == "vanish" else "left"
            if action.what == "vanish":
                self._connections[-1].abort()
            # The reader of the events waits in another task, and ends with the connection.
            self._closing = asyncio.create_task(session.close())

    def _now(self) -> float:
        return time.monotonic() - self._began
