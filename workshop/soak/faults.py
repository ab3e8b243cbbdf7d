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
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
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
from workshop.soak.foreign_formats import run_foreign
from workshop.soak.foreign_session import NATIVE, draw_foreign_plan, draw_format
from workshop.soak.report import WINDOW_S, SoakReport
from workshop.soak.scripted_client import ScriptedClient, SessionRecord
from workshop.soak.service_under_test import ServiceUnderTest, TritonUnderTest, with_webhooks
from workshop.soak.session_plan import (
    LONGEST_AWAY_S,
    PER_MS,
    Action,
    Audio,
    Item,
    SessionPlan,
    Speech,
    SpokenWord,
    draw_plan,
)
from workshop.soak.session_plan import STOP as STOP_ITEM
from workshop.soak.soak_run import GIVING_BACK, KILL, Fault, Faults, Settings, SoakRun


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


class FaultsRun(SoakRun):
    """Runs sessions of all kinds and formats at one service, whose Tritons fail."""

    command = "faults"

    def __init__(
        self, service: ServiceUnderTest, settings: Settings, report: SoakReport, tell: Callable[[str], None]
    ) -> None:
        super().__init__(service, settings, report, tell)
        self._one_service = service
        self._recorded: list[RecordedSession] = []  # the recordings, if they are used

    async def run(self) -> None:
        """Do the run and fill the report."""
        if self._settings.recordings or self._settings.public:
            self._recorded = await undisturbed_sessions(self._service.url)
        await super().run()

    def _faults_of_the_run(self) -> Faults:
        return FaultInjector(self._one_service, self._settings.seed, self._settings.every, self._began)

    async def _carry_out(self, number: int) -> tuple[str, SessionRecord]:
        seed, url = self._settings.seed, self._service.url
        format = NATIVE if self._recorded or not self._settings.formats else draw_format(seed, number)
        if format != NATIVE:
            plan = draw_foreign_plan(seed, number, format)
            return format, await run_foreign(plan, url, self._began, self._one_service.grpc_port)
        native = draw_recorded_plan(seed, number, self._recorded) if self._recorded else draw_plan(seed, number)
        return NATIVE, await ScriptedClient(native, url, self._began).run()

    def _has_room(self, running: int, begun: int, elapsed: float) -> bool:
        return running < self._settings.at_a_time * (0.8 + 0.5 * math.sin(2 * math.pi * elapsed / WINDOW_S))

    def _options_of(self, plan: SessionPlan) -> str:
        if self._settings.public is not None:
            return f" --public-model {self._settings.public}"
        return " --recordings" * (not plan.exact) + f" --model {self._settings.model}" * (self._settings.model != MODEL)


# Causes faults behind the service, in a random sequence that a seed repeats.

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


class FaultInjector(Faults):
    """Causes faults behind one service."""

    def __init__(self, service: ServiceUnderTest, seed: int, every: float, began: float) -> None:
        super().__init__(seed, every, began)
        self._service = service

    def _kinds(self) -> Mapping[str, tuple[float, float]]:
        kinds = {**HERE, **AT_THE_READER} if self._service.reader else HERE
        if all(triton.proxy is not None for triton in self._service.tritons):
            kinds = {**kinds, **ON_THE_WAY}
        return kinds

    async def _happen(self, fault: Fault) -> None:
        tritons = self._service.tritons
        triton = self._rng.choice(tritons[:-1] or tritons if fault.kind in ENDING else tritons)
        fault.where = triton.name
        try:
            if fault.kind == "service stopped":
                await self._stop(fault, [self._service.bridge])
            elif fault.kind in ON_THE_WAY:
                await self._on_the_way(fault, triton)
            elif fault.kind == "Triton killed":
                self._send(fault, [triton.pid], KILL)
            elif fault.kind == "model's process killed":
                self._send(fault, self._rng.sample(triton.stubs, min(1, len(triton.stubs))), KILL)
            elif fault.kind == "reader's process killed":
                self._send(fault, triton.readers, KILL)
            elif fault.kind == "reader's process stopped":
                await self._stop(fault, triton.readers)
            elif fault.kind == "reader unloaded":
                await _unload_for(triton, READER, fault.seconds)
            elif fault.kind in ("model reloaded", "reader reloaded"):
                await reload(triton, self._service.model if fault.kind == "model reloaded" else READER)
            else:
                triton.paused = True
                await self._stop(fault, triton.stubs if fault.kind == "model's process stopped" else [triton.pid])
        finally:
            triton.paused = False

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


async def reload(triton: TritonUnderTest, model: str) -> None:
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
