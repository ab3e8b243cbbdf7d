"""Runs thousands of sessions during faults. Each says other words, and must get exactly these words back.

A real `serve` runs with real Tritons, whose model recognises the test audio exactly. The number of clients rises and
falls in waves, and is sometimes above the limit. Some clients are cut off, vanish, send nonsense or do not read. Every
few seconds there is a fault behind the service. A seed repeats the same run.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from streamer.testing.exact_repository import exact_heads_repository, exact_repository
from streamer.testing.soak.faults import FaultInjector
from streamer.testing.soak.formats.foreign_plan import NATIVE, draw_foreign_plan, draw_format
from streamer.testing.soak.formats.formats import check_foreign, run_foreign
from streamer.testing.soak.recorded_sessions import RecordedSession, draw_recorded_plan, undisturbed_sessions
from streamer.testing.soak.report import WINDOW_S, MemorySample, SoakReport
from streamer.testing.soak.scripted_client import ScriptedClient, SessionRecord
from streamer.testing.soak.service_under_test import ServiceUnderTest, failures_inside
from streamer.testing.soak.session_check import Verdict, check
from streamer.testing.soak.session_plan import SHORT_RESUME_S, SessionPlan, draw_plan
from streamer.triton import MODEL
from streamer.triton.repository import asr_repository, link_model

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


async def soak(settings: Settings, tell: Callable[[str], None]) -> SoakReport:
    """Do a run. Each session with an error is written to a file in the folder."""
    report = SoakReport(settings.seed)
    os.environ.update(GIVING_BACK)  # for all processes that are started
    with tempfile.TemporaryDirectory(prefix="soak-") as models:
        repository = _repository(settings, Path(models))
        rng = random.Random(f"{settings.seed} stand")
        service = ServiceUnderTest(
            repository,
            settings.folder,
            tritons=settings.tritons,
            slots=settings.slots,
            rng=rng,
            model=settings.model,
        )
        async with service:
            await FaultsRun(service, settings, report, tell).run()
        report.complaints += service.left + list(service.complaints())
        report.restarts = service.restarts
    return report


def _repository(settings: Settings, folder: Path) -> Path:
    """Return the repository with the model of the test. `folder` is a place to make one."""
    if settings.public is not None:
        (folder / "models").mkdir()
        link_model(settings.public, folder / "models" / MODEL)
        return folder / "models"
    if settings.recordings:
        return asr_repository()
    return exact_repository(folder / "models") if settings.model == MODEL else exact_heads_repository(folder)


class FaultsRun:
    """Runs sessions and faults until the time is over and all sessions are gone."""

    def __init__(
        self, service: ServiceUnderTest, settings: Settings, report: SoakReport, tell: Callable[[str], None]
    ) -> None:
        self.report = report
        self._service, self._settings, self._tell = service, settings, tell
        self._recorded: list[RecordedSession] = []  # the recordings, if they are used
        self._began = time.monotonic()
        self._faults: FaultInjector | None = None

    async def run(self) -> None:
        """Do the run and fill the report."""
        if self._settings.recordings or self._settings.public:
            self._recorded = await undisturbed_sessions(self._service.url)
        await self._session(0)  # the first session opens files that later ones need too
        before = self._service.descriptors()
        async with self._faults_happen(), self._sampled():
            await self._crowd()
        await self._settle()
        with suppress(OSError):
            failures = failures_inside(await self._service.metrics())
            self.report.complaints += [f"failures inside the service ({part}): {n:g}" for part, n in failures.items()]
        self.report.left["files of the service"] = max(0, self._service.descriptors() - before - SPARE_DESCRIPTORS)

    async def _session(self, number: int) -> None:
        """Run one session and check it."""
        format = NATIVE if self._recorded or not self._settings.formats else draw_format(self._settings.seed, number)
        if format == NATIVE:
            record = await ScriptedClient(self._plan(number), self._service.url, self._began).run()
        else:
            plan = draw_foreign_plan(self._settings.seed, number, format)
            record = await run_foreign(plan, self._service.url, self._began)
        near = self._faults.felt_between(record.began, record.over) if self._faults is not None else []
        verdict = (check if format == NATIVE else check_foreign)(record, disturbed=bool(near))
        self.report.formats[format] += 1
        self.report.format_words[format] += verdict.words
        self.report.add(record, verdict)
        if verdict.broken:
            self._write(record, verdict)

    async def _crowd(self) -> None:
        """Run sessions in waves until the time is over."""
        seconds, at_a_time = self._settings.minutes * 60, self._settings.at_a_time
        number, running, told_at = 1, set[asyncio.Task[None]](), time.monotonic()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds and self._service.alive:
            target = at_a_time * (0.8 + 0.5 * math.sin(2 * math.pi * elapsed / WINDOW_S))
            while len(running) < target:
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
        every = self._settings.every
        faults = self._faults = FaultInjector(self._service, self._settings.seed, every, self._began)
        breaking = asyncio.create_task(faults.run()) if every else None
        try:
            yield
        finally:
            if breaking is not None:
                breaking.cancel()
                await asyncio.gather(breaking, return_exceptions=True)
            await faults.settle()
            self.report.faults = faults.counted()

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

    def _plan(self, number: int) -> SessionPlan:
        seed = self._settings.seed
        return draw_recorded_plan(seed, number, self._recorded) if self._recorded else draw_plan(seed, number)

    def _tell_progress(self, running: int) -> None:
        report = self.report
        faults = sum(self._faults.counted().values()) if self._faults is not None else 0
        self._tell(
            f"{time.monotonic() - self._began:.0f} s, {report.sessions} sessions over, {running} running, "
            f"{faults} faults, {report.recoveries} recoveries, {report.broken} broken"
        )

    def _model(self, plan: SessionPlan) -> str:
        if self._settings.public is not None:
            return f" --public-model {self._settings.public}"
        return " --recordings" * (not plan.exact) + f" --model {self._settings.model}" * (self._settings.model != MODEL)

    def _write(self, record: SessionRecord, verdict: Verdict) -> None:
        """Write the whole record of a session with an error."""
        plan = record.plan
        faults = self._faults.felt_between(record.began, record.over) if self._faults is not None else []
        content = {
            "repeat": f"python scripts/service/soak.py faults --seed {plan.seed} --only {plan.number}"
            + self._model(plan),
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
