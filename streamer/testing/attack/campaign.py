"""Runs attacks of all kinds at once for a given time, beside well-behaved sessions. Then checks what is left."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamer.testing.attack.attack import Attack, PromiseBroken, RecogniserFailed, Strike
from streamer.testing.attack.attacked_service import AttackedService
from streamer.testing.attack.bystanders import Bystanders
from streamer.testing.attack.raw_connection import CUT_OFF
from streamer.testing.attack.report import AttackReport
from streamer.testing.exact_repository import exact_repository
from streamer.testing.soak.faults_run import GIVING_BACK, SPARE_DESCRIPTORS
from streamer.testing.soak.service_under_test import failures_inside

MOST_CALM_S = 20.0
TOLD_EVERY_S = 30.0
SETTLE_LIMIT_S = 120.0
# The most by which the memory of the bridge may grow during the attacks, and by how much it may be larger afterwards.
MOST_MB, LEFT_MB = 300.0, 40.0
OF_INTEREST = ("streamer_connections_dropped_total", "streamer_refusals_total", "streamer_sessions_ended_total")


@dataclass(frozen=True)
class Campaign:
    """The settings of a run of attacks."""

    seed: int
    folder: Path  # for keys, logs and the report
    attacks: Sequence[Attack]
    minutes: float = 10.0
    attackers: int = 8
    bystanders: int = 4
    late_s: float = 2.0  # 99 of 100 partials of the bystanders must arrive sooner

    async def run(self, tell: Callable[[str], None]) -> AttackReport:
        """Run the attacks and return the report."""
        os.environ.update(GIVING_BACK)  # for all processes that are started
        report = AttackReport(self.seed)
        with tempfile.TemporaryDirectory(prefix="attack-") as models:
            async with AttackedService(exact_repository(Path(models) / "models"), self.folder, self.seed) as attacked:
                await _Run(self, attacked, report, tell).run()
            report.broken += attacked.service.left + attacked.complaints(report.seconds / 60)
            report.log_lines = len(attacked.log())
        return report


class _Run:
    def __init__(
        self, campaign: Campaign, attacked: AttackedService, report: AttackReport, tell: Callable[[str], None]
    ) -> None:
        self._campaign, self._attacked, self._report, self._tell = campaign, attacked, report, tell
        self._until = 0.0
        self._numbers: dict[str, int] = {}
        # One attack of each family, which run in any case, also if the machine is slow and the time is short.
        families = {attack.family: attack for attack in reversed(campaign.attacks) if not attack.every_s}
        self._first = list(families.values())

    async def run(self) -> None:
        campaign, attacked, report = self._campaign, self._attacked, self._report
        seconds, began = campaign.minutes * 60, time.monotonic()
        calm_s = min(MOST_CALM_S, seconds / 5)
        self._until = began + seconds
        witnesses = Bystanders(attacked.service.url, attacked.key, attacked.target, campaign.seed, report.witness)
        watching = asyncio.create_task(witnesses.run(campaign.bystanders, lambda: time.monotonic() < self._until))
        await asyncio.sleep(calm_s)
        descriptors = attacked.service.descriptors()
        report.attacked_at = time.monotonic()
        everybody = [a for a in campaign.attacks if not a.every_s]
        working = [self._attacker(number, everybody) for number in range(campaign.attackers) if everybody]
        working += [self._now_and_then(attack) for attack in campaign.attacks if attack.every_s]
        telling = asyncio.create_task(self._tell_progress(began))
        try:
            await asyncio.gather(*working)
        finally:
            telling.cancel()
        over = time.monotonic()
        report.seconds = over - began
        await watching
        await self._settle(over, descriptors)

    async def _attacker(self, number: int, attacks: Sequence[Attack]) -> None:
        """Run attacks in random order. Each round has every attack as often as its weight says."""
        rng = random.Random(f"{self._campaign.seed} attacker {number}")
        while self._first and self._attacked.alive:
            await self._strike(self._first.pop())
        while self._going:
            bag = [attack for attack in attacks for _ in range(attack.weight)]
            rng.shuffle(bag)
            for attack in bag:
                if not self._going:
                    return
                await self._strike(attack)

    async def _now_and_then(self, attack: Attack) -> None:
        rng = random.Random(f"{self._campaign.seed} {attack.name}")
        every = min(attack.every_s, 0.4 * self._campaign.minutes * 60)
        wait = every * rng.uniform(0.2, 0.8)
        while (left := self._until - time.monotonic()) > wait:
            await asyncio.sleep(min(wait, left))
            await self._strike(attack)
            wait = every * rng.uniform(0.7, 1.3)

    async def _strike(self, attack: Attack) -> None:
        number = self._numbers[attack.name] = self._numbers.get(attack.name, 0) + 1
        rng = random.Random(f"{self._campaign.seed} {attack.name} {number}")
        report, target, began = self._report, self._attacked.target, time.monotonic()
        strike, name, broken = Strike(), f"{attack.family}: {attack.name}", ""
        try:
            strike = await asyncio.wait_for(attack.strike(target, rng), attack.limit_s)
        except PromiseBroken as promise:
            broken = str(promise)
        except RecogniserFailed:
            report.recogniser_failed += 1
            if not target.was_disturbed(began, time.monotonic()):
                broken = "the recogniser failed, although no fault was caused"
        except asyncio.TimeoutError:
            broken = f"a client waited for an answer too long, or the strike took more than {attack.limit_s:g} s"
        except CUT_OFF:
            strike.add("cut off")
            await asyncio.sleep(0.05)
        except Exception:  # the service sent something that no client can understand, or the attack itself is wrong
            broken = traceback.format_exc()
        report.add(name, strike)
        if broken:
            report.broken.append(f"{name}, number {number}: {broken}")
            self._tell(report.broken[-1][:300])

    async def _settle(self, over: float, descriptors: int) -> None:
        """Wait until nothing is left of the attackers, and report what is left at the limit."""
        attacked, report = self._attacked, self._report
        until = time.monotonic() + SETTLE_LIMIT_S
        while attacked.alive:
            left = await attacked.service.owed()
            left["descriptors"] = max(0, attacked.service.descriptors() - descriptors - SPARE_DESCRIPTORS)
            if not any(left.values()) or time.monotonic() > until:
                break
            await asyncio.sleep(0.5)
        if not attacked.alive:
            report.broken.append("the service ended before it was stopped")
            return
        report.broken += [f"{name} at the end: {amount:g}" for name, amount in left.items() if amount]
        await asyncio.sleep(3.0)
        metrics = await attacked.service.metrics()
        report.metrics = {name: n for name, n in metrics.items() if name.startswith(OF_INTEREST) and n}
        failures = failures_inside(metrics)
        report.broken += [f"failures inside the service ({part}): {n:g}" for part, n in failures.items()]
        report.memory = attacked.figures(report.attacked_at, over)
        for name, (before, most, after) in report.memory.items():
            if most - before > MOST_MB:
                report.broken.append(f"the memory of the {name} grew from {before:.0f} to {most:.0f} MB")
            if after - before > LEFT_MB:
                report.broken.append(f"the {name} needs {after - before:.0f} MB more than before")
        late = report.late()["attacked"]
        if late and late[1] > self._campaign.late_s:
            report.broken.append(f"one partial in 100 was late by {late[1]:.2f} s or more")

    async def _tell_progress(self, began: float) -> None:
        while True:
            await asyncio.sleep(TOLD_EVERY_S)
            report = self._report
            self._tell(
                f"{time.monotonic() - began:.0f} s, {report.total} inputs, {report.witness.sessions} sessions of "
                f"bystanders over, {len(list(report.complaints()))} promises broken"
            )

    @property
    def _going(self) -> bool:
        return time.monotonic() < self._until and self._attacked.alive
