"""Causes faults behind the service, in a random sequence that a seed repeats."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tritonclient.grpc import aio  # type: ignore[import-untyped]
from tritonclient.utils import InferenceServerException  # type: ignore[import-untyped]

from streamer.testing.soak.service_under_test import ServiceUnderTest, TritonUnderTest, send_signal

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
# These faults replace processes. One of several Tritons is spared them, so that its memory can be observed.
ENDING = ("Triton killed", "model's process killed", "model reloaded")
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
        kinds = HERE if any(triton.proxy is None for triton in self._service.tritons) else {**HERE, **ON_THE_WAY}
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
            elif fault.kind == "model reloaded":
                await _reload(triton, self._service.model)
            else:
                pids = triton.stubs if fault.kind == "model's process stopped" else [triton.pid]
                triton.paused = True
                await self._stop(pids, fault.seconds)
        finally:
            triton.paused = False
            fault.over = self._now()

    async def _stop(self, pids: list[Any], seconds: float) -> None:
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


async def _config(client: aio.InferenceServerClient, model: str) -> dict[str, Any]:
    answer = await client.get_model_config(model, as_json=True, client_timeout=RELOAD_LIMIT_S)
    config: dict[str, Any] = answer["config"]
    return config


async def _load(client: aio.InferenceServerClient, model: str, config: dict[str, Any]) -> None:
    # Triton does not load a model again that has not changed.
    changed = {**config.get("parameters", {}), "reloaded": {"string_value": secrets.token_hex(8)}}
    content = json.dumps({**config, "parameters": changed})
    await client.load_model(model, config=content, client_timeout=RELOAD_LIMIT_S)
