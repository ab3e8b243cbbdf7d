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
import secrets
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.grpc import aio  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from streamer.base.limits import READER
from streamer.base.package import shipped
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository, link_model
from streamer.commands.accuracy.manifest import read_manifest
from streamer.testing.exact_service import exact_heads_repository, exact_repository
from streamer.testing.exact_speech import silence
from workshop.soak.foreign_formats import check_foreign, run_foreign
from workshop.soak.foreign_session import NATIVE, draw_foreign_plan, draw_format
from workshop.soak.report import WINDOW_S, MemorySample, SoakReport
from workshop.soak.scripted_client import ScriptedClient, SessionRecord
from workshop.soak.service_under_test import (
    ServiceUnderTest,
    TritonUnderTest,
    failures_inside,
    send_signal,
    with_webhooks,
)
from workshop.soak.session_check import Verdict, check
from workshop.soak.session_plan import (
    LONGEST_AWAY_S,
    PER_MS,
    SHORT_RESUME_S,
    Action,
    Audio,
    Item,
    SessionPlan,
    Speech,
    SpokenWord,
    draw_plan,
)
from workshop.soak.session_plan import STOP as STOP_ITEM

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
            reader=_reader(settings, repository),
            settings=("--grpc-port", 0, *with_webhooks(settings.folder)),
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
    if settings.model == MODEL:
        return exact_repository(folder / "models", reader=True)
    return exact_heads_repository(folder)


def _reader(settings: Settings, repository: Path) -> Path | None:
    """Return the folder of the reader: the exact one has no weights. None where its words would not be exact."""
    exact = settings.model == MODEL and not settings.recordings and settings.public is None
    return repository / READER if exact else None


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
            record = await run_foreign(plan, self._service.url, self._began, self._service.grpc_port)
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


# Causes faults behind the service, in a random sequence that a seed repeats.

KILL, STOP, CONTINUE = signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
# The kinds of faults, and for how many seconds they last. An answer is overdue after 5 s at the earliest.
HERE = {
    "Triton killed": (0.0, 0.0),
    "model's process killed": (0.0, 0.0),
    "model's process stopped": (1.0, 12.0),
    "Triton stopped": (1.0, 12.0),
    "model reloaded": (0.0, 0.0),
    "service stopped": (0.3, 3.0),
}
AT_THE_READER = {
    "reader's process killed": (0.0, 0.0),
    "reader's process stopped": (1.0, 12.0),
    "reader unloaded": (1.0, 8.0),  # until an operator loads it again
    "reader reloaded": (0.0, 0.0),
}
# These faults replace processes. One of several Tritons is spared them, so that its memory can be observed.
ENDING = (
    "Triton killed",
    "model's process killed",
    "model reloaded",
    "reader's process killed",
    "reader unloaded",
    "reader reloaded",
)
ON_THE_WAY = {"link cut": (0.0, 0.0), "link stalled": (1.0, 12.0), "link refused": (1.0, 6.0)}
RELOAD_LIMIT_S = 30.0
# For this long after a fault sessions may still be affected: until answers are overdue and the recogniser has failed.
AFTERWARDS_S = 60.0


@dataclass
class Fault:
    """A fault: its kind, the Triton it affects, and its time in the run."""

    kind: str
    triton: str
    at: float
    seconds: float
    over: float | None = None


class FaultInjector:
    """Causes faults from time to time, in random order. Every kind occurs once before any kind is repeated."""

    def __init__(self, service: ServiceUnderTest, seed: int, every: float, began: float) -> None:
        """`every`: the mean time between two faults in seconds; 0 for no faults."""
        self.log: list[Fault] = []
        self._service, self._every, self._began = service, every, began
        self._rng = random.Random(f"{seed} faults")
        self._running: set[asyncio.Task[None]] = set()

    def counted(self) -> Counter[str]:
        """Return the number of faults of each kind."""
        return Counter(fault.kind for fault in self.log)

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
            tritons = self._service.tritons
            triton = self._rng.choice(tritons[:-1] or tritons if kind in ENDING else tritons)
            fault = Fault(kind, triton.name, self._now(), round(seconds, 1))
            self.log.append(fault)
            task = asyncio.create_task(self._happen(fault, triton))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def settle(self) -> None:
        """Wait until all faults are over."""
        await asyncio.gather(*self._running)

    def _sequence(self) -> Iterator[tuple[str, float]]:
        kinds = {**HERE, **AT_THE_READER} if self._service.reader else HERE
        if all(triton.proxy is not None for triton in self._service.tritons):
            kinds = {**kinds, **ON_THE_WAY}
        while True:
            bag = list(kinds)
            self._rng.shuffle(bag)
            for kind in bag:
                yield kind, self._rng.uniform(*kinds[kind])

    async def _happen(self, fault: Fault, triton: TritonUnderTest) -> None:
        try:
            if fault.kind == "service stopped":
                await self._stop([self._service.bridge], fault.seconds)
            elif fault.kind in ON_THE_WAY:
                await self._on_the_way(fault, triton)
            elif fault.kind == "Triton killed":
                send_signal(triton.pid, KILL)
            elif fault.kind == "model's process killed":
                for pid in self._rng.sample(triton.stubs, min(1, len(triton.stubs))):
                    send_signal(pid, KILL)
            elif fault.kind == "reader's process killed":
                for pid in triton.readers:
                    send_signal(pid, KILL)
            elif fault.kind == "reader's process stopped":
                await self._stop(triton.readers, fault.seconds)
            elif fault.kind == "reader unloaded":
                await _unload_for(triton, READER, fault.seconds)
            elif fault.kind in ("model reloaded", "reader reloaded"):
                await _reload(triton, self._service.model if fault.kind == "model reloaded" else READER)
            else:
                pids = triton.stubs if fault.kind == "model's process stopped" else [triton.pid]
                triton.paused = True
                await self._stop(pids, fault.seconds)
        finally:
            triton.paused = False
            fault.over = self._now()

    async def _stop(self, pids: Sequence[int | None], seconds: float) -> None:
        try:
            for pid in pids:
                send_signal(pid, STOP)
            await asyncio.sleep(seconds)
        finally:
            for pid in pids:
                send_signal(pid, CONTINUE)

    async def _on_the_way(self, fault: Fault, triton: TritonUnderTest) -> None:
        assert triton.proxy is not None
        try:
            if fault.kind == "link stalled":
                triton.proxy.stall()
            else:
                triton.proxy.refusing = fault.kind == "link refused"
                await triton.proxy.cut()
            await asyncio.sleep(fault.seconds)
        finally:
            triton.proxy.resume()
            triton.proxy.refusing = False

    def _now(self) -> float:
        return time.monotonic() - self._began


async def _reload(triton: TritonUnderTest, model: str) -> None:
    """Load the model, or all steps of an ensemble, again, as an operator may do at any time. All sequences are lost."""
    endpoint = triton.endpoint("grpc")
    if endpoint is None:
        return
    # Triton may not run, or may end during the request.
    with suppress(InferenceServerException, asyncio.TimeoutError):
        async with aio.InferenceServerClient(str(endpoint)) as client:
            config = await _config(client, model)
            for step in config.get("ensemble_scheduling", {}).get("step", []):
                await _load(client, step["model_name"], await _config(client, step["model_name"]))
            await _load(client, model, config)


async def _unload_for(triton: TritonUnderTest, model: str, seconds: float) -> None:
    """Unload a model, and load it again after this time."""
    endpoint = triton.endpoint("grpc")
    if endpoint is None:
        return
    with suppress(InferenceServerException, asyncio.TimeoutError):
        async with aio.InferenceServerClient(str(endpoint)) as client:
            await client.unload_model(model, client_timeout=RELOAD_LIMIT_S)
            await asyncio.sleep(seconds)
            await client.load_model(model, client_timeout=RELOAD_LIMIT_S)


async def _config(client: aio.InferenceServerClient, model: str) -> dict[str, Any]:
    answer = await client.get_model_config(model, as_json=True, client_timeout=RELOAD_LIMIT_S)
    config: dict[str, Any] = answer["config"]
    return config


async def _load(client: aio.InferenceServerClient, model: str, config: dict[str, Any]) -> None:
    # Triton does not load a model again that has not changed.
    changed = {**config.get("parameters", {}), "reloaded": {"string_value": secrets.token_hex(8)}}
    content = json.dumps({**config, "parameters": changed})
    await client.load_model(model, config=content, client_timeout=RELOAD_LIMIT_S)


# Makes sessions that send recordings to the shipped model. Each must get the words that an undisturbed one got.

DEFAULT = "audio_samples/samples.tsv"
# Options that together cover the different ways of recognition.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"step_ms": 160, "endpoint": {"longest_ms": 6000}},
    {"search": "greedy", "step_ms": 640, "partial_words": True},
    {"stability": "high", "settle_ms": 1000},
)
KINDS = {"plain": 40, "cut": 30, "takeover": 15, "vanish": 8, "leave": 7}
FRAMES = (6400, 10_240, 32_001, 200_000)


class UndisturbedError(Exception):
    """A session without any fault did not end as it should."""


@dataclass(frozen=True)
class RecordedSession:
    """A recording sent with certain options, and the words that the service recognises without faults."""

    options: Mapping[str, Any]
    speech: Speech


async def undisturbed_sessions(url: str) -> list[RecordedSession]:
    """Recognise each recording with each set of options, without faults."""
    sessions = []
    for number, utterance in enumerate(read_manifest(shipped(DEFAULT))):
        audio = np.concatenate([utterance.samples(), silence(1500)])
        audio = audio[: len(audio) // PER_MS * PER_MS]
        for options in OPTIONS:
            session = RecordedSession(options, Speech(number, audio, (), ()))
            plan = _plan(0, 0, "plain", session, (Audio(0, 2 * len(audio)), STOP_ITEM), None)
            record = await ScriptedClient(plan, url, time.monotonic()).run()
            if record.ended != "done":
                raise UndisturbedError(f"{utterance.name} ended with {record.ended!r}: {record.error}")
            finals = [event for _, event in record.events if event["type"] == "final"]
            words = [SpokenWord(w["word"], w["start_ms"], w["end_ms"]) for final in finals for w in final["words"]]
            sessions.append(replace(session, speech=replace(session.speech, words=tuple(words))))
    return sessions


def draw_recorded_plan(seed: int, number: int, recorded: list[RecordedSession]) -> SessionPlan:
    """Draw the plan of the session with this number."""
    rng = random.Random(f"{seed} {number}")
    session = rng.choice(recorded)
    [kind] = rng.choices(list(KINDS), list(KINDS.values()))
    items: list[Item] = []
    size, offset, length = rng.choice(FRAMES), 0, 2 * len(session.speech.audio)
    while offset < length:
        items.append(Audio(offset, min(offset + size, length)))
        offset += size
    items.append(STOP_ITEM)
    if kind in ("cut", "takeover"):
        for _ in range(rng.choice((1, 2))):
            items.insert(rng.randint(0, len(items)), Action(kind, rng.choice((0.0, 0.5, LONGEST_AWAY_S))))
    elif kind in ("vanish", "leave"):
        items = [*items[: rng.randint(0, len(items) - 1)], Action(kind)]
    return _plan(seed, number, kind, session, tuple(items), rng.choice((None, 8.0, 4.0, 2.0)))


def _plan(
    seed: int, number: int, kind: str, session: RecordedSession, items: tuple[Item, ...], pace: float | None
) -> SessionPlan:
    ends = {"vanish": "vanished", "leave": "left"}.get(kind, "done")
    audio = session.speech.audio.tobytes()
    options = dict(session.options)
    return SessionPlan(
        seed, number, kind, options, (session.speech,), audio, items, frozenset({ends}), pace, late_ms=(-1, 1)
    )
