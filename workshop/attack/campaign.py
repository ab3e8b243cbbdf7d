"""Runs attacks of all families at once beside well-behaved sessions, checks what is left, and reports it."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from streamer.testing.exact_service import add_exact_model
from workshop.attack.attack import Attack, PromiseBroken, RecogniserFailed, Strike
from workshop.attack.attacked_service import AttackedService
from workshop.attack.bystanders import Bystanders, Witness
from workshop.attack.families import (
    calls,
    connections,
    deepgram_live,
    deepgram_recorded,
    faults,
    grpc_calls,
    http_requests,
    messages,
    models,
    openai_files,
    openai_realtime,
    second_passes,
    self_hosted,
    sessions,
    uploads,
    websocket_frames,
)
from workshop.attack.raw_connection import CUT_OFF
from workshop.soak.service_under_test import failures_inside
from workshop.soak.soak_run import GIVING_BACK, SPARE_DESCRIPTORS

MOST_CALM_S = 20.0
TOLD_EVERY_S = 30.0
SETTLE_LIMIT_S = 120.0
# The most by which the memory of the bridge may grow during the attacks.
MOST_MB = 300.0
# By how much it may be larger afterwards: so many MB, or this part of what the attacks took at most. Python and the C
# library give memory back only where nothing is used any more, so the higher the peak was, the more remains. Memory
# that is never freed stays whole.
LEFT_MB, LEFT_OF_PEAK = 40.0, 0.5
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
            repository = Path(models) / "models"
            add_exact_model(repository, fault="reads again slowly", reader=True)
            async with AttackedService(repository, self.folder, self.seed) as attacked:
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
            if after - before > max(LEFT_MB, LEFT_OF_PEAK * (most - before)):
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


# The report of a run of attacks: inputs and answers by kind, the observations of bystanders, and broken promises.


@dataclass
class AttackReport:
    """Collects results during the attacks."""

    seed: int
    seconds: float = 0.0
    strikes: Counter[str] = field(default_factory=Counter)
    inputs: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    recogniser_failed: int = 0  # hostile sessions that ended because the recogniser failed
    broken: list[str] = field(default_factory=list)  # a sentence for each broken promise
    witness: Witness = field(default_factory=Witness)
    attacked_at: float = 0.0
    memory: dict[str, list[float]] = field(default_factory=dict)  # MB: before, the most during the attacks, afterwards
    metrics: dict[str, float] = field(default_factory=dict)  # some metrics of the service at the end
    log_lines: int = 0

    def add(self, name: str, strike: Strike) -> None:
        """Count one run of an attack."""
        self.strikes[name] += 1
        self.inputs[name] += strike.inputs
        self.answers[name] += strike.answers

    @property
    def total(self) -> int:
        """The number of hostile inputs: connections, requests, frames and messages."""
        return sum(self.inputs.values())

    def late(self) -> dict[str, list[float]]:
        """Return how late partials were before and during the attacks: median, 99th percentile and maximum."""
        late = self.witness.late
        return {
            "calm": _quantiles([each for at, each in late if at < self.attacked_at]),
            "attacked": _quantiles([each for at, each in late if at >= self.attacked_at]),
        }

    def complaints(self) -> Iterator[str]:
        """Yield a sentence for each broken promise."""
        yield from self.broken
        yield from self.witness.complaints

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        witness = self.witness
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "inputs": self.total,
            "attacks": {
                name: {"strikes": self.strikes[name], "inputs": self.inputs[name], "answers": dict(self.answers[name])}
                for name in sorted(self.strikes)
            },
            "bystanders": {
                "sessions": witness.sessions,
                "words": witness.words,
                "lost": witness.lost,
                "crossed": witness.crossed,
                "recovered": witness.recovered,
                "read_by": dict(witness.read_by),
                "kept_out": dict(witness.kept_out),
                "entering_s": round(witness.entering_s, 2),
                "late_s": self.late(),
            },
            "memory_mb": self.memory,
            "metrics": self.metrics,
            "log_lines": self.log_lines,
            "recogniser_failed": self.recogniser_failed,
            "broken": list(self.complaints()),
        }

    def text(self) -> str:
        """Return the report as two tables: the attacks with their answers, and the effect on the bystanders."""
        lines = ["| attack | times | inputs | answered |", "|---|---:|---:|---|"]
        for name in sorted(self.strikes):
            lines.append(f"| {name} | {self.strikes[name]} | {self.inputs[name]} | {_listed(self.answers[name])} |")
        witness, late = self.witness, self.late()
        rows = {
            "hostile inputs": f"{self.total} in {self.seconds / 60:.1f} min",
            "bystander sessions": f"{witness.sessions}; {witness.words} words",
            "words lost / from other sessions": f"{witness.lost} / {witness.crossed}",
            "their finals with a second pass": _listed(witness.read_by) or "-",
            "delay of partials without attacks: p50, p99, max": " ".join(f"{each:.2f} s" for each in late["calm"])
            or "-",
            "the same under attack": " ".join(f"{each:.2f} s" for each in late["attacked"]) or "-",
            "failed attempts of bystanders to open a session": _listed(witness.kept_out) or "0",
            "longest time until a bystander had its session": f"{witness.entering_s:.1f} s",
            "recoveries": f"{witness.recovered}",
            **{
                f"memory of the {name}, MB": "before {:.0f}, at most {:.0f}, afterwards {:.0f}".format(*figures)
                for name, figures in self.memory.items()
            },
            "lines in the log": f"{self.log_lines}",
            **{name: f"{value:g}" for name, value in self.metrics.items()},
            "promises broken": f"{len(list(self.complaints()))}",
        }
        return "\n".join([*lines, "", "| what | seen |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows.items())])


def _quantiles(values: Sequence[float]) -> list[float]:
    ranked = sorted(values)
    if not ranked:
        return []
    return [round(ranked[min(len(ranked) - 1, int(part * len(ranked)))], 3) for part in (0.5, 0.99, 1.0)]


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


# Lists all attacks. Each family is a module with a list of its attacks. A new way in gets a family of its own.

ATTACKS: Final[tuple[Attack, ...]] = (
    *connections.ATTACKS,
    *http_requests.ATTACKS,
    *websocket_frames.ATTACKS,
    *messages.ATTACKS,
    *sessions.ATTACKS,
    *second_passes.ATTACKS,
    *uploads.ATTACKS,
    *deepgram_live.ATTACKS,
    *deepgram_recorded.ATTACKS,
    *openai_realtime.ATTACKS,
    *openai_files.ATTACKS,
    *self_hosted.ATTACKS,
    *calls.ATTACKS,
    *grpc_calls.ATTACKS,
    *models.ATTACKS,
    *faults.ATTACKS,
)
FAMILIES: Final = tuple(dict.fromkeys(attack.family for attack in ATTACKS))


def chosen(names: list[str]) -> tuple[Attack, ...]:
    """Return the attacks with these names or of these families (default: all). ValueError names an unknown one."""
    unknown = set(names) - set(FAMILIES) - {attack.name for attack in ATTACKS}
    if unknown:
        families = ", ".join(FAMILIES)
        raise ValueError(
            f"there is no attack {sorted(unknown)[0]!r}; the families are {families}, and --list shows all attacks"
        )
    return tuple(attack for attack in ATTACKS if not names or {attack.name, attack.family} & set(names))
