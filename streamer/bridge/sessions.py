"""All sessions of the port: opens them for their connections, and ends them in bounded time."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from streamer.base.codes import ErrorCode
from streamer.bridge.access.quotas import Admittance, Denied, Quotas
from streamer.bridge.driver import Connection, SessionDriver, SessionFacts
from streamer.bridge.resumption import Resumption
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.session import Session
from streamer.bridge.telemetry import logs
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton.link import origin
from streamer.bridge.upstreams.admission import Admission, Models
from streamer.bridge.webhooks import Webhooks
from streamer.bridge.workers.neighbours import Neighbours
from streamer.bridge.workers.others import Alone, Others, token_of

log = Log("streamer.bridge")

MOST_WAITING = 64  # connections without a sequence: not started yet, or refused and being closed
REMEMBER_S = 60.0  # at least, that an operator has ended a session
MOST_RETURNING = 16  # connections that may only resume a session, and have not named it yet


class Sessions:
    """The drivers of all sessions, each with its task."""

    def __init__(
        self,
        admission: Admission,
        models: Models,
        metrics: Metrics,
        limits: Limits | None,
        quotas: Quotas | None = None,
        neighbours: Neighbours | None = None,
        others: Others | None = None,
        webhooks: Webhooks | None = None,
    ) -> None:
        """`quotas`, `neighbours`, `others`: what this process and others count, and where they have their sessions."""
        self._quotas = quotas
        self._worker = 0 if neighbours is None else neighbours.number
        self._admission = admission
        self._models = models
        self._metrics = metrics
        self._limits = limits or Limits()
        self._webhooks = webhooks
        self._others = others or Alone()
        self._resumption: Resumption[SessionDriver] = Resumption(neighbours, self._others)
        self._drivers: dict[asyncio.Task[None], SessionDriver] = {}

    def __len__(self) -> int:
        return len(self._drivers)

    @property
    def idle_s(self) -> float:
        """The time for which a client may send nothing."""
        return self._limits.idle_s

    def may_return(self, key: str) -> bool:
        """Return whether a caller with this key may resume one of its sessions although it may not open one."""
        # With several processes, all that is known is that the key has sessions.
        others = 0 if self._quotas is None else self._quotas.sessions_of(key)
        known = self._resumption.knows(key) or ((self._worker or self._others.bridge) and others)
        return bool(known) and sum(other.barred for other in self._drivers.values()) < MOST_RETURNING

    def is_expelled(self, token: str) -> bool:
        """Return whether an operator has ended the session of this token."""
        return self._resumption.is_expelled(token)

    def find(self, token: str, key: str) -> SessionDriver | None:
        """Return the session with this token; None if it does not exist any more or belongs to another key."""
        return self._resumption.find(token, key)

    def call(self, call_sid: str, key: str) -> SessionDriver | None:
        """Return the session of a call by its number in the network; None if there is none of this key."""
        for driver in self._drivers.values():
            if driver.key == key and driver.about().get("call_sid") == call_sid and driver.resumable:
                return driver
        return None

    def facts(self) -> list[SessionFacts]:
        """Return what an operator may know of the sessions here, the oldest first."""
        return [driver.facts() for driver in self._drivers.values() if not driver.barred]

    def expel(self, number: str) -> bool:
        """End the session with this number, because an operator wants it. Return whether there is one here."""
        for driver in self._drivers.values():
            if driver.session.number == number:
                driver.expel()
                # A client that is away would begin the session again if it were not told.
                self._resumption.expel(driver.session.token, max(REMEMBER_S, driver.session.limits.resume_s))
                return True
        return False

    def open(
        self,
        connection: Connection,
        admittance: Admittance | None,
        key: str,
        *,
        barred: Denied | None = None,
        protocol: str = "native",
        resumable: bool = True,
        idle_s: float | None = None,
        about: Callable[[], Mapping[str, object]] = dict,
    ) -> SessionDriver:
        """Open a session for a connection, in the context of its task. The caller then calls the driver's read().

        `idle_s`: a shorter limit than usual for the time in which the client sends nothing, also before `start`.
        `about`: what the format says of the session, once it has begun.
        """
        limits = self._limits if resumable else _unresumable(self._limits, idle_s)
        number, token = secrets.token_hex(8), token_of(self._others.bridge, self._worker, secrets.token_urlsafe(24))
        session = Session(number, token, self._models.names, time.monotonic(), limits)
        # The task of the pump inherits these from the context of this connection.
        logs.session.set(number)
        origin.set(f"{number}-")
        if key:
            log.info("admitted", key=key)
        driver = SessionDriver(
            connection,
            session,
            self._admission,
            self._metrics,
            self._resumption,
            admittance,
            key=key,
            barred=barred,
            protocol=protocol,
            webhooks=self._webhooks,
            about=about,
        )
        if sum(other.waiting for other in self._drivers.values()) >= MOST_WAITING:
            session.refuse(ErrorCode.FULL, "Too many connections are waiting for a session; try again later.")
        pump = asyncio.create_task(driver.pump())
        self._drivers[pump] = driver
        pump.add_done_callback(self._drivers.pop)
        return driver

    def move(self) -> None:
        """End each session that can go on at another bridge at its next cut."""
        for driver in self._drivers.values():
            driver.move()

    def drain(self) -> None:
        """End all sessions in order: each gets its finals first."""
        for driver in list(self._drivers.values()):
            driver.drain()

    def cut_off(self) -> None:
        """End all sessions at once."""
        for pump in self._drivers:
            pump.cancel()

    async def wait_until_ended(self, limit_s: float) -> None:
        """Wait until the present sessions have ended, but at most for `limit_s`."""
        waiting: Iterable[asyncio.Task[None]] = set(self._drivers)
        if self._drivers:
            await asyncio.wait(waiting, timeout=limit_s)


def _unresumable(limits: Limits, idle_s: float | None) -> Limits:
    """Return the limits of a session that ends with its connection, and whose format decides when `start` comes."""
    idle_s = limits.idle_s if idle_s is None else min(idle_s, limits.idle_s)
    return replace(limits, resume_s=0.0, idle_s=idle_s, start_s=idle_s)
