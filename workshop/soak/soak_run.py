"""Runs sessions while faults happen, and checks them, whatever is under test and whatever the faults are.

`faults.py` has the faults behind one service, `network_faults.py` those of a network of several bridges.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from streamer.bridge.triton import MODEL
from workshop.soak.foreign_formats import check_foreign
from workshop.soak.foreign_session import NATIVE
from workshop.soak.report import MemorySample, SoakReport
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.service_under_test import Metrics, failures_inside, send_signal
from workshop.soak.session_check import Verdict, check
from workshop.soak.session_plan import SHORT_RESUME_S, SessionPlan

SAMPLE_EVERY_S = 2.0
LOOK_S = 0.1
TOLD_EVERY_S = 30.0
# Sessions whose clients have gone are kept for a while. A model that hangs is loaded again after 30 s without an answer
# and one or two probes. After that nothing may be left of them.
SETTLE_LIMIT_S = SHORT_RESUME_S + 70.0
# By default the C library keeps freed memory for later. With these settings it gives the memory back, so that the
# figures of a process show what it uses.
GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
# gRPC may be opening or closing connections at the moment.
SPARE_DESCRIPTORS = 4

KILL, STOP, CONTINUE = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
# For this long after a fault sessions may still be affected: until answers are overdue and the recogniser has failed.
AFTERWARDS_S = 60.0


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    seed: int  # the seed of all random choices
    folder: Path  # for logs and broken sessions
    minutes: float = 10.0  # the time in which sessions begin
    at_a_time: int = 80  # the mean number of simultaneous sessions
    tritons: int = 2  # the number of Tritons behind the service; 0: an embedded one
    slots: int = 40  # the slots of each model instance
    every: float = 6.0  # seconds between faults; 0: none
    formats: bool = True  # a share of the sessions speaks foreign formats, or uploads recordings
    recordings: bool = False  # send recordings to the shipped model instead of generated words to the exact one
    public: Path | None = None  # the folder of a public model, which gets recordings in the place of the shipped one
    model: str = MODEL  # `asr_heads`: the recogniser in steps
    only: int | None = None  # the number of the only session to run, again and again


class UnderTest(Protocol):
    """What is used for a while, and must then be as it was: a service, or a network of several."""

    @property
    def url(self) -> str:
        """The address for clients."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    def processes(self) -> dict[tuple[str, int], float]:
        """Return the memory of each process, by its kind and id."""

    def descriptors(self) -> int:
        """Return the number of files and sockets that its bridges have open."""

    async def metrics(self) -> Metrics:
        """Return its metrics, by name and labels."""

    async def owed(self) -> dict[str, float]:
        """Return the amounts of resources that belong to sessions. All must be 0 when no session runs."""


class SoakRun(ABC):
    """Runs sessions and faults until the time is over and all sessions are gone."""

    command: str  # of the program, which repeats the run

    def __init__(self, service: UnderTest, settings: Settings, report: SoakReport, tell: Callable[[str], None]) -> None:
        self.report = report
        self._service, self._settings, self._tell = service, settings, tell
        self._began = time.monotonic()
        self._faults: Faults | None = None

    async def run(self) -> None:
        """Do the run and fill the report."""
        await self._session(0)  # the first session opens files that later ones need too
        before = self._service.descriptors()
        async with self._faults_happen(), self._sampled():
            await self._crowd()
        await self._settle()
        with suppress(OSError):
            failures = failures_inside(await self._service.metrics())
            self.report.complaints += [f"failures inside the service ({part}): {n:g}" for part, n in failures.items()]
        self.report.left["files of the service"] = max(0, self._service.descriptors() - before - SPARE_DESCRIPTORS)

    @abstractmethod
    def _faults_of_the_run(self) -> Faults:
        """Return what causes its faults."""

    @abstractmethod
    async def _carry_out(self, number: int) -> tuple[str, SessionRecord]:
        """Run the session with this number. Return its format and its record."""

    @abstractmethod
    def _has_room(self, running: int, begun: int, elapsed: float) -> bool:
        """Return whether to begin another session. `begun`: the sessions so far; `elapsed`: the time in seconds."""

    async def _session(self, number: int) -> None:
        """Run one session and check it."""
        format, record = await self._carry_out(number)
        near = self._faults.felt_between(record.began, record.over) if self._faults is not None else []
        verdict = (check if format == NATIVE else check_foreign)(record, disturbed=bool(near))
        self.report.formats[format] += 1
        self.report.format_words[format] += verdict.words
        self.report.add(record, verdict)
        if verdict.broken:
            self._write(record, verdict)

    async def _crowd(self) -> None:
        """Run sessions in waves until the time is over."""
        seconds = self._settings.minutes * 60
        number, running, told_at = 1, set[asyncio.Task[None]](), time.monotonic()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds and self._service.alive:
            while self._has_room(len(running), number, elapsed):
                task = asyncio.create_task(
                    self._session(number if self._settings.only is None else self._settings.only)
                )
                running.add(task)
                task.add_done_callback(running.discard)
                number += 1
            for task in [task for task in running if task.done()]:
                task.result()
            await asyncio.sleep(LOOK_S)
            if time.monotonic() - told_at > TOLD_EVERY_S:
                told_at = time.monotonic()
                self._tell_progress(len(running))
        await asyncio.gather(*running)
        self.report.seconds = time.monotonic() - began
        if not self._service.alive:
            self.report.complaints.append("the service ended before it was stopped")

    async def _settle(self) -> None:
        """Wait until nothing is left of the sessions, and report what is left at the limit."""
        until = time.monotonic() + SETTLE_LIMIT_S
        while True:
            left = await self._service.owed()
            if not any(left.values()) or time.monotonic() > until or not self._service.alive:
                break
            await asyncio.sleep(0.3)
        self.report.left |= left

    @asynccontextmanager
    async def _faults_happen(self) -> AsyncIterator[None]:
        """Cause faults in this context, and wait until they are over at its end."""
        faults = self._faults = self._faults_of_the_run()
        breaking = asyncio.create_task(faults.run()) if self._settings.every else None
        try:
            yield
        finally:
            if breaking is not None:
                breaking.cancel()
                await asyncio.gather(breaking, return_exceptions=True)
            await faults.settle()
            self.report.faults, self.report.missed = faults.counted(), faults.missed()

    @asynccontextmanager
    async def _sampled(self) -> AsyncIterator[None]:
        """Sample the memory of all processes in this context."""

        async def look() -> None:
            while True:
                now = time.monotonic() - self._began
                for (name, pid), memory in (await asyncio.to_thread(self._service.processes)).items():
                    self.report.samples.append(MemorySample(now, self.report.sessions, name, pid, memory))
                await asyncio.sleep(SAMPLE_EVERY_S)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def _tell_progress(self, running: int) -> None:
        report = self.report
        faults = sum(self._faults.counted().values()) if self._faults is not None else 0
        self._tell(
            f"{time.monotonic() - self._began:.0f} s, {report.sessions} sessions over, {running} running, "
            f"{faults} faults, {report.recoveries} recoveries, {report.broken} broken"
        )

    def _options_of(self, plan: SessionPlan) -> str:
        """Return the options of the program that repeat a session besides the seed and its number."""
        return ""

    def _write(self, record: SessionRecord, verdict: Verdict) -> None:
        """Write the whole record of a session with an error."""
        plan = record.plan
        faults = self._faults.felt_between(record.began, record.over) if self._faults is not None else []
        content = {
            "repeat": f"python scripts/service/soak.py {self.command} --seed {plan.seed} --only {plan.number}"
            + self._options_of(plan),
            "broken": verdict.broken,
            "kind": plan.kind,
            "options": plan.options,
            "pace": plan.pace,
            "ended": record.ended,
            "close_code": record.close_code,
            "began": record.began,
            "over": record.over,
            "sent": record.sent,
            "refusals": record.refusals,
            "connections": record.connections,
            "faults": faults,
            "spoken": [[asdict(word) for word in speech.words] for speech in plan.speeches],
            "items": [repr(item)[:200] for item in plan.items],
            "events": [[round(at, 3), event] for at, event in record.events],
        }
        path = self._settings.folder / f"session-{plan.number}.json"
        path.write_text(json.dumps(content, indent=1) + "\n")


# Causes faults, in a random sequence that a seed repeats.


@dataclass
class Fault:
    """A fault: its kind, what it affects, and its time in the run."""

    kind: str
    at: float
    seconds: float
    where: str = ""
    over: float | None = None
    missed: bool = False  # what it should affect was not there


class Faults(ABC):
    """Causes faults from time to time, in random order. Every kind occurs once before any kind is repeated."""

    def __init__(self, seed: int, every: float, began: float) -> None:
        """`every`: the mean time between two faults in seconds; 0 for no faults."""
        self.log: list[Fault] = []
        self._every, self._began = every, began
        self._rng = random.Random(f"{seed} faults")
        self._running: set[asyncio.Task[None]] = set()

    def counted(self) -> Counter[str]:
        """Return the number of faults of each kind."""
        return Counter(fault.kind for fault in self.log)

    def missed(self) -> Counter[str]:
        """Return how many of them, of each kind, had nothing to affect: a process that had ended, for example."""
        return Counter(fault.kind for fault in self.log if fault.missed)

    def felt_between(self, began: float, over: float) -> list[dict[str, Any]]:
        """Return the faults that may have affected a session that ran between these times."""
        return [
            asdict(fault)
            for fault in self.log
            if fault.at <= over and (fault.over is None or fault.over + AFTERWARDS_S >= began)
        ]

    async def run(self) -> None:
        """Cause faults until cancelled. Faults that have begun end by themselves."""
        for kind, seconds in self._sequence():
            await asyncio.sleep(self._rng.uniform(0.3, 1.7) * self._every)
            fault = Fault(kind, self._now(), round(seconds, 1))
            self.log.append(fault)
            task = asyncio.create_task(self._let_happen(fault))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def settle(self) -> None:
        """Wait until all faults are over."""
        await asyncio.gather(*self._running)

    @abstractmethod
    def _kinds(self) -> Mapping[str, tuple[float, float]]:
        """Return the kinds of faults, and for how many seconds they last."""

    @abstractmethod
    async def _happen(self, fault: Fault) -> None:
        """Choose where it happens, and wait until it is over."""

    def _sequence(self) -> Iterator[tuple[str, float]]:
        kinds = self._kinds()
        while True:
            bag = list(kinds)
            self._rng.shuffle(bag)
            for kind in bag:
                yield kind, self._rng.uniform(*kinds[kind])

    async def _let_happen(self, fault: Fault) -> None:
        try:
            await self._happen(fault)
        finally:
            fault.over = self._now()

    def _send(self, fault: Fault, pids: Sequence[int | None], number: signal.Signals) -> None:
        """Send a signal to processes, and note whether any of them was there."""
        there = [send_signal(pid, number) for pid in pids]
        fault.missed = fault.missed or not any(there)

    async def _stop(self, fault: Fault, pids: Sequence[int | None]) -> None:
        try:
            self._send(fault, pids, STOP)
            await asyncio.sleep(fault.seconds)
        finally:
            for pid in pids:
                send_signal(pid, CONTINUE)

    def _now(self) -> float:
        return time.monotonic() - self._began
