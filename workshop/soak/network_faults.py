"""Runs sessions in a network of Tritons, bridges, a balancer and a store, where links and nodes fail.

The clients are those of `streamer.client`, which find back to their sessions: at the same bridge, or at another one,
which recognises the audio without a final again. Every session must get exactly the words that it says.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

from streamer.bridge.triton import MODEL
from workshop.soak.consumption import Consumption
from workshop.soak.foreign_session import NATIVE
from workshop.soak.network_under_test import (
    BRIDGE,
    BRIDGE_PORT,
    SECOND,
    START_LIMIT_S,
    NetworkUnderTest,
    Supervised,
    answers,
)
from workshop.soak.report import WINDOW_S, SoakReport
from workshop.soak.returning_client import ReturningClient
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.service_under_test import TritonUnderTest, send_signal
from workshop.soak.session_plan import draw_live_plan
from workshop.soak.soak_run import CONTINUE, GIVING_BACK, KILL, SAMPLE_EVERY_S, STOP, Fault, Faults, Settings, SoakRun
from workshop.soak.switch import IN, OUT, Way

# How much more often sessions begin at the top of a wave.
WAVE = 0.6
FIRST_WORDS = (2, 3)
LOOK_S = 0.2
PIECE_S, STOPPED_PART = 0.05, 0.8  # of a slow node
ROLL_LIMIT_S = 150.0

# The kinds of faults, and for how many seconds they last.
ON_LINKS = {
    "link cut": (1.0, 12.0),
    "link half open": (1.0, 12.0),
    "link slow": (3.0, 12.0),
    "link loses packets": (3.0, 12.0),
    "link reorders packets": (3.0, 12.0),
}
OF_NODES = {
    "bridge killed": (0.0, 0.0),
    "bridge stopped": (1.0, 12.0),
    "bridge slow": (2.0, 8.0),
    "bridge has another address": (0.0, 0.0),
    "bridges rolled": (0.0, 0.0),
    "Triton killed": (0.0, 0.0),
    "Triton stopped": (1.0, 12.0),
    "Triton slow": (2.0, 8.0),
    "Tritons rolled": (0.0, 0.0),
    "model's process killed": (0.0, 0.0),
    "model's process stopped": (1.0, 12.0),
    "model rolled": (0.0, 0.0),
    "balancer killed": (0.0, 0.0),
    "balancer stopped": (0.5, 4.0),
    "balancer rolled": (0.0, 0.0),
}
OF_THE_STORE = {
    "store killed, empty again": (0.0, 0.0),
    "store stopped": (1.0, 12.0),
    "store failed over": (0.0, 0.0),
}


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """The settings of a run in a network. `at_a_time` is the most sessions at a time."""

    at_a_time: int = 150
    tritons: int = 3
    slots: int = 200
    every: float = 2.4
    bridges: int = 3
    sessions: int = 1000  # in all
    words: tuple[int, int] = (15, 50)  # of a session, a bit more than a second each
    store: bool = False


async def soak_network(settings: NetworkSettings, tell: Callable[[str], None]) -> SoakReport:
    """Do a run. Each session with an error is written to a file in the folder."""
    report = SoakReport(settings.seed)
    os.environ.update(GIVING_BACK)  # for all processes that are started
    with tempfile.TemporaryDirectory(prefix="soak-") as models:
        network = NetworkUnderTest(
            Path(models),
            settings.folder,
            tritons=settings.tritons,
            bridges=settings.bridges,
            slots=settings.slots,
            store=settings.store,
            rng=random.Random(f"{settings.seed} stand"),
        )
        async with network:
            await NetworkRun(network, settings, report, tell).run()
            report.packets = network.network.counts()
        report.complaints += [*network.left, *network.complaints()]
        report.restarts = network.restarts
        report.clocks_s = network.shifts_s
    return report


class NetworkRun(SoakRun):
    """Runs sessions whose clients find back to them."""

    command = "network"

    def __init__(
        self, network: NetworkUnderTest, settings: NetworkSettings, report: SoakReport, tell: Callable[[str], None]
    ) -> None:
        super().__init__(network, settings, report, tell)
        self._network, self._of_network = network, settings
        self._consumption = Consumption(network)
        self._running = 0  # sessions

    @asynccontextmanager
    async def _sampled(self) -> AsyncIterator[None]:
        """Add up also what the nodes take."""

        async def look() -> None:
            while True:
                await asyncio.to_thread(self._consumption.look, self._running)
                await asyncio.sleep(SAMPLE_EVERY_S)

        began = time.monotonic()
        looking = asyncio.create_task(look())
        try:
            async with super()._sampled():
                yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            self._consumption.look(self._running)
            taken = self._consumption.as_json(time.monotonic() - began)
            names = ("minutes", "sessions", "at_a_time", "words", "bridges", "tritons", "every")
            settings = {name: getattr(self._of_network, name) for name in names}
            self.report.taken = {**taken, "begun": self.report.sessions - 1, "settings": settings}

    def _faults_of_the_run(self) -> Faults:
        settings = self._of_network
        return NetworkFaults(self._network, settings.seed, settings.every, self._began)

    async def _carry_out(self, number: int) -> tuple[str, SessionRecord]:
        words = self._of_network.words if number else FIRST_WORDS
        plan = draw_live_plan(self._of_network.seed, number, words)
        self._running += 1
        try:
            return NATIVE, await ReturningClient(plan, self._network.url_of(number), self._began).run()
        finally:
            self._running -= 1

    def _has_room(self, running: int, begun: int, elapsed: float) -> bool:
        settings = self._of_network
        seconds = settings.minutes * 60
        # As many in the whole time as there should be, and more of them at the top of each wave.
        waves = 2 * math.pi * max(1, round(seconds / WINDOW_S))
        part = elapsed / seconds
        due = settings.sessions * (part + WAVE * math.sin(waves * part) / waves)
        return begun <= min(due + 1, settings.sessions) and running < settings.at_a_time


class NetworkFaults(Faults):
    """Causes faults of links and nodes."""

    def __init__(self, network: NetworkUnderTest, seed: int, every: float, began: float) -> None:
        super().__init__(seed, every, began)
        self._network = network
        self._rolling = {kind: asyncio.Lock() for kind in OF_NODES if kind.endswith("rolled")}
        self._new_addresses = cycle(range(100, 250))

    def _kinds(self) -> Mapping[str, tuple[float, float]]:
        return {**ON_LINKS, **OF_NODES, **(OF_THE_STORE if self._network.stores else {})}

    async def _happen(self, fault: Fault) -> None:
        if fault.kind in ON_LINKS:
            await self._on_a_link(fault)
        elif fault.kind in self._rolling:
            await self._roll(fault)
        elif fault.kind.startswith("bridge"):
            await self._at_a_bridge(fault)
        elif fault.kind.startswith("balancer"):
            await self._at_processes(fault, "balancer", lambda: self._network.balancer.pids)
        elif fault.kind.startswith("store"):
            await self._at_the_store(fault)
        else:
            await self._at_a_triton(fault)

    async def _on_a_link(self, fault: Fault) -> None:
        rng = self._rng
        links = [*self._network.network.nodes, *self._network.links]
        fault.where = rng.choice([link for link in links if link != "clients"])
        ways = (OUT, IN) if fault.kind != "link half open" else (rng.choice((OUT, IN)),)
        way = {
            "link cut": Way(cut=True),
            "link half open": Way(cut=True),
            "link slow": Way(delay_s=rng.uniform(0.05, 0.3), jitter_s=0.05),
            "link loses packets": Way(loss=rng.uniform(0.02, 0.15)),
            "link reorders packets": Way(delay_s=0.02, jitter_s=0.01, reorder=rng.uniform(0.05, 0.3)),
        }[fault.kind]
        with self._network.network.bad(fault.where, way, ways):
            await asyncio.sleep(fault.seconds)

    async def _at_a_bridge(self, fault: Fault) -> None:
        bridge = self._rng.choice(self._network.bridges)
        fault.where = bridge.node.name
        if fault.kind == "bridge has another address":
            address = BRIDGE.format(next(self._new_addresses))
            await asyncio.to_thread(self._network.network.renumber, bridge.node, address)
        else:
            await self._at_processes(fault, bridge.node.name, lambda: bridge.pids)

    async def _at_a_triton(self, fault: Fault) -> None:
        triton = self._rng.choice(self._network.tritons)
        of_model = fault.kind.startswith("model")
        triton.paused = True
        try:
            await self._at_processes(fault, triton.name, lambda: triton.stubs if of_model else _pids(triton))
        finally:
            triton.paused = False

    async def _at_the_store(self, fault: Fault) -> None:
        fault.where = self._network.master.node.name
        if fault.kind == "store failed over":
            await asyncio.to_thread(self._network.fail_over)
        else:
            await self._at_processes(fault, fault.where, lambda: self._network.master.pids)

    async def _at_processes(self, fault: Fault, where: str, pids_of: Callable[[], Sequence[int]]) -> None:
        """Kill or stop the processes, or stop them again and again for most of the time, so that they are slow."""
        fault.where = where
        if "killed" in fault.kind:
            self._send(fault, pids_of(), KILL)
        elif "stopped" in fault.kind:
            await self._stop(fault, pids_of())
        else:
            until = time.monotonic() + fault.seconds
            fault.missed = not pids_of()
            while time.monotonic() < until:
                pids = pids_of()
                for number, part in ((STOP, STOPPED_PART), (CONTINUE, 1 - STOPPED_PART)):
                    for pid in pids:
                        send_signal(pid, number)
                    await asyncio.sleep(PIECE_S * part)

    async def _roll(self, fault: Fault) -> None:
        """Replace all of a kind, one after the other, each when the one before it is ready again."""
        if self._rolling[fault.kind].locked():
            fault.missed = True
            return
        async with self._rolling[fault.kind]:
            fault.where = "all"
            if fault.kind == "bridges rolled":
                for bridge in self._network.bridges:
                    await self._replace(bridge)
            elif fault.kind == "Tritons rolled":
                for triton in self._network.tritons:
                    pid = triton.pid
                    send_signal(pid, signal.SIGTERM)
                    await self._until(partial(_runs_again, triton, pid))
            elif fault.kind == "balancer rolled":
                master = self._network.balancer
                fault.missed = not (master.running and send_signal(master.process.pid, signal.SIGUSR2))
            else:
                await self._roll_model()

    async def _replace(self, bridge: Supervised) -> None:
        starts = bridge.starts
        if bridge.running:
            send_signal(bridge.process.pid, signal.SIGTERM)
        page = f"http://{bridge.node.address}:{BRIDGE_PORT}/readyz"
        await self._until(lambda: bridge.starts > starts and answers(page))

    async def _roll_model(self) -> None:
        """Roll all bridges to the other model. One that cannot be asked now has it after its next start."""
        self._network.model = MODEL if self._network.model == SECOND else SECOND
        for bridge in self._network.bridges:
            words = [sys.executable, "-m", "streamer", "roll", "--control", str(self._network.control(bridge))]
            process = await asyncio.create_subprocess_exec(
                *words, self._network.model, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            await _ended(process.wait(), ROLL_LIMIT_S, process.kill)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a state, within a limit, because other faults may be in the way."""
        until = time.monotonic() + START_LIMIT_S
        while not await asyncio.to_thread(is_so):
            if time.monotonic() > until:
                return
            await asyncio.sleep(LOOK_S)


async def _ended(waiting: Awaitable[int], limit_s: float, kill: Callable[[], None]) -> None:
    try:
        await asyncio.wait_for(waiting, limit_s)
    except asyncio.TimeoutError:
        kill()


def _runs_again(triton: TritonUnderTest, former: int | None) -> bool:
    return triton.pid not in (None, former) and bool(triton.stubs)


def _pids(triton: TritonUnderTest) -> list[int]:
    pid = triton.pid
    return [] if pid is None else [pid]
