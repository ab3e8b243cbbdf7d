"""Thousands of sessions among faults, each saying what no other says: is each told just that?

A real `serve` with real Tritons behind it, in which a model hears exactly what is said (soaking/exact.py). Clients come
and go in waves, more at times than there is room for; some are cut off, vanish, send nonsense or do not listen; and
behind the service something breaks every few seconds. All of it is drawn from a seed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from streamer.testing.exact_repository import exact_repository
from streamer.testing.soak.checker import Verdict, check
from streamer.testing.soak.faults import Faults
from streamer.testing.soak.plan import SHORT_RESUME_S, Plan, plan
from streamer.testing.soak.recitals import Recital, UndisturbedError, learn, recite
from streamer.testing.soak.service_under_test import ServiceUnderTest
from streamer.testing.soak.talker import Record, Talker
from streamer.testing.soak.tally import WINDOW_S, Sample, Tally
from streamer.triton import TritonError
from streamer.triton.repository import asr_repository

DEFAULT_FOLDER = Path("build/soak")
SAMPLE_EVERY_S = 2.0
LOOK_S = 0.1
TOLD_EVERY_S = 30.0
# Sessions whose clients have gone are kept for a while, and a model that hangs is loaded again after 30 s of silence
# and a probe or two; then nothing may be left of them.
SETTLE_LIMIT_S = SHORT_RESUME_S + 70.0
# The C library keeps freed memory for later, the more the larger the pieces were: told to give it back, the processes
# show what they use.
GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
# gRPC may be about to make or close a connection.
SPARE_DESCRIPTORS = 4
# What belongs to sessions, by the service's own metrics, and what it is called here.
OWED = {
    "sessions": "streamer_sessions",
    "leases": "streamer_sequences",
    "connections": "streamer_sessions_by_state{",
    "bytes queued": "streamer_backlog_bytes",
    "requests": "streamer_computing",
    "messages": "streamer_outgoing_messages",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long sessions begin (10)")
    parser.add_argument("--seed", type=int, help="of all that is random (a new one)")
    parser.add_argument("--at-a-time", type=int, default=80, metavar="N", help="sessions, on average (80)")
    parser.add_argument("--tritons", type=int, default=2, help="behind the service; 0: an embedded one (2)")
    parser.add_argument("--slots", type=int, default=40, help="of each model instance (40)")
    parser.add_argument("--every", type=float, default=6.0, metavar="S", help="seconds between faults; 0: none (6)")
    parser.add_argument("--recordings", action="store_true", help="said to the shipped model, instead of the exact one")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="no other session than this, again and again")
    parser.add_argument("--folder", type=Path, help="for the report, logs and broken sessions (build/soak/SEED)")


def run(options: argparse.Namespace) -> int:
    """Soak, and tell; 0 only if nothing was wrong."""
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = options.folder or DEFAULT_FOLDER / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("session-*.json"):  # of a run before
        path.unlink()
    print(f"soak: seed {seed}; what breaks is written to {folder}", file=sys.stderr)
    try:
        tally = asyncio.run(_soak(options, seed, folder))
    except (TritonError, UndisturbedError, OSError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    (folder / "report.json").write_text(json.dumps(tally.as_json(), indent=1) + "\n")
    (folder / "memory.tsv").write_text(tally.memory())
    print(tally.table())
    broken = list(tally.broke())
    for complaint in broken:
        print(f"soak: {complaint}", file=sys.stderr)
    return int(bool(broken))


async def _soak(options: argparse.Namespace, seed: int, folder: Path) -> Tally:
    tally = Tally(seed)
    os.environ.update(GIVING_BACK)  # of all that is started
    with tempfile.TemporaryDirectory(prefix="soak-") as models:
        repository = asr_repository() if options.recordings else exact_repository(Path(models) / "models")
        dice = random.Random(f"{seed} stand")
        stand = ServiceUnderTest(repository, folder, tritons=options.tritons, slots=options.slots, dice=dice)
        async with stand:
            await _use(stand, Soak(stand, seed, folder, tally), options)
        tally.complaints += stand.left + list(stand.complaints())
        tally.restarts = stand.restarts
    return tally


async def _use(stand: ServiceUnderTest, soak: Soak, options: argparse.Namespace) -> None:
    if options.recordings:
        soak.recitals = await learn(stand.url)
    soak.only = options.only
    await soak.session(0)  # what is made at first use is there from now on
    before = stand.descriptors()
    async with soak.broken_now_and_then(options.every), soak.sampled():
        await soak.crowd(options.minutes * 60, options.at_a_time)
    await soak.settle()
    soak.tally.left["files of the service"] = max(0, stand.descriptors() - before - SPARE_DESCRIPTORS)


class Soak:
    """One run."""

    def __init__(self, stand: ServiceUnderTest, seed: int, folder: Path, tally: Tally) -> None:
        self.tally = tally
        self.recitals: list[Recital] = []  # what is said, if it is not words of their own
        self.only: int | None = None
        self._stand, self._seed, self._folder = stand, seed, folder
        self._zero = time.monotonic()
        self._faults: Faults | None = None

    async def session(self, number: int) -> None:
        """One session from its beginning to its verdict."""
        record = await Talker(self._plan(number), self._stand.url, self._zero).talk()
        near = self._faults.near(record.began, record.over) if self._faults is not None else []
        verdict = check(record, disturbed=bool(near))
        self.tally.add(record, verdict)
        if verdict.broken:
            self._write(record, verdict)

    async def crowd(self, seconds: float, at_a_time: int) -> None:
        """Sessions in waves, for so long."""
        number, running, told = 1, set[asyncio.Task[None]](), time.monotonic()
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds and self._stand.alive:
            wanted = at_a_time * (0.8 + 0.5 * math.sin(2 * math.pi * elapsed / WINDOW_S))
            while len(running) < wanted:
                task = asyncio.create_task(self.session(number if self.only is None else self.only))
                running.add(task)
                task.add_done_callback(running.discard)
                number += 1
            for task in [task for task in running if task.done()]:
                task.result()
            await asyncio.sleep(LOOK_S)
            if time.monotonic() - told > TOLD_EVERY_S:
                told = time.monotonic()
                self._tell(len(running))
        await asyncio.gather(*running)
        self.tally.seconds = time.monotonic() - began
        if not self._stand.alive:
            self.tally.complaints.append("the service has ended by itself")

    async def settle(self) -> None:
        """Wait until nothing is left of the sessions; what is left then is told."""
        until = time.monotonic() + SETTLE_LIMIT_S
        while True:
            left = await self._left()
            if not any(left.values()) or time.monotonic() > until or not self._stand.alive:
                break
            await asyncio.sleep(0.3)
        self.tally.left |= left

    @asynccontextmanager
    async def broken_now_and_then(self, every: float) -> AsyncIterator[None]:
        """Faults happen meanwhile, and are over afterwards."""
        faults = self._faults = Faults(self._stand, self._seed, every, self._zero)
        breaking = asyncio.create_task(faults.run()) if every else None
        try:
            yield
        finally:
            if breaking is not None:
                breaking.cancel()
                await asyncio.gather(breaking, return_exceptions=True)
            await faults.settle()
            self.tally.faults = faults.counted()

    @asynccontextmanager
    async def sampled(self) -> AsyncIterator[None]:
        """Memory is looked at meanwhile."""

        async def look() -> None:
            while True:
                now = time.monotonic() - self._zero
                for (name, pid), memory in (await asyncio.to_thread(self._stand.processes)).items():
                    self.tally.samples.append(Sample(now, self.tally.sessions, name, pid, memory))
                await asyncio.sleep(SAMPLE_EVERY_S)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _left(self) -> dict[str, float]:
        left = dict.fromkeys(("slots", *OWED), float("inf"))
        with suppress(OSError):  # a Triton that is just started again
            left["slots"] = await self._stand.slots_live()
            metrics = await self._stand.metrics()
            for name, metric in OWED.items():
                left[name] = sum(
                    value for key, value in metrics.items() if key == metric or (metric[-1] == "{" and metric in key)
                )
        return left

    def _plan(self, number: int) -> Plan:
        return recite(self._seed, number, self.recitals) if self.recitals else plan(self._seed, number)

    def _tell(self, running: int) -> None:
        tally = self.tally
        faults = sum(self._faults.counted().values()) if self._faults is not None else 0
        print(
            f"soak: {time.monotonic() - self._zero:.0f} s, {tally.sessions} sessions over, {running} running, "
            f"{faults} faults, {tally.recoveries} recoveries, {tally.broken} broken",
            file=sys.stderr,
            flush=True,
        )

    def _write(self, record: Record, verdict: Verdict) -> None:
        """All that is known of a session with which something is wrong."""
        made = record.plan
        faults = self._faults.near(record.began, record.over) if self._faults is not None else []
        content = {
            "repeat": f"python scripts/service/soak.py faults --seed {made.seed} --only {made.number}"
            + " --recordings" * (not made.exact),
            "broken": verdict.broken,
            "kind": made.kind,
            "options": made.options,
            "pace": made.pace,
            "ended": record.ended,
            "close_code": record.close_code,
            "began": record.began,
            "over": record.over,
            "sent": record.sent,
            "refusals": record.refusals,
            "connections": record.connections,
            "faults": faults,
            "spoken": [[asdict(said) for said in speech.words] for speech in made.speeches],
            "items": [repr(item)[:200] for item in made.items],
            "events": [[round(at, 3), event] for at, event in record.events],
        }
        path = self._folder / f"session-{made.number}.json"
        path.write_text(json.dumps(content, indent=1) + "\n")
