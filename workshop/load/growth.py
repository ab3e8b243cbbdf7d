"""Opens very many short sessions one after another, and finds what each leaves behind in the service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streamer.base.machine import find_process
from streamer.client import connect
from streamer.commands.traffic.processes import memory_mb

PROCESSES: Final = Path("/proc")
# Caches fill and allocators settle in this part of the sessions, which does not count.
SETTLING: Final = 0.25
SHARED_MEMORY: Final = Path("/dev/shm")  # a server's regions begin with the name of its folder
DRAWS: Final = 1000
BLOCK: Final = 5  # neighbouring samples are alike, so so many are drawn together
FEWEST_SAMPLES: Final = 4 * BLOCK
SEED: Final = 1

MEMORY, DESCRIPTORS, THREADS, FOLDERS, PROCESSOR = "MB", "descriptors", "threads", "files and folders", "CPU ms"
# From here on, what is left behind is told as a fault, if it is certain: by 20 000 sessions, and one for all things
# that are counted.
MOST_LEFT: Final[Mapping[str, float]] = {MEMORY: 20.0, DESCRIPTORS: 1.0, THREADS: 1.0, FOLDERS: 1.0, PROCESSOR: 2.0}


@dataclass(frozen=True)
class Slope:
    """How much something grows with 1000 sessions, with its 95 % interval."""

    growth: float
    low: float
    high: float

    def certain(self, sessions: int) -> float:
        """Return what that certainly is for so many sessions."""
        return max(0.0, self.low) * sessions / 1000


@dataclass
class Series:
    """What something was after so many sessions."""

    sessions: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, sessions: int, value: float) -> None:
        """Add a sample."""
        self.sessions.append(sessions)
        self.values.append(value)

    @property
    def slope(self) -> Slope | None:
        """The slope after the beginning; None for too few samples."""
        sessions, values = np.array(self.sessions, np.float64) / 1000, np.array(self.values, np.float64)
        counted = sessions >= SETTLING * sessions[-1] if len(sessions) else np.zeros(0, np.bool_)
        sessions, values = sessions[counted], values[counted]
        if len(sessions) < FEWEST_SAMPLES:
            return None
        growth = _median_slope(sessions, values)
        rng = np.random.default_rng(SEED)
        rest = values - growth * sessions
        firsts = rng.integers(0, len(rest) - BLOCK + 1, (DRAWS, -(-len(rest) // BLOCK)))
        drawn = rest[(firsts[:, :, None] + np.arange(BLOCK)).reshape(DRAWS, -1)[:, : len(rest)]]
        slopes = [_median_slope(sessions, growth * sessions + noise) for noise in drawn]
        low, high = np.quantile(slopes, [0.025, 0.975])
        return Slope(growth, float(low), float(high))


def _median_slope(sessions: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the median of the slopes between all pairs of samples (Theil-Sen): a few that stand out do not count."""
    first, second = np.triu_indices(len(sessions), k=1)
    return float(np.median((values[second] - values[first]) / (sessions[second] - sessions[first])))


Growth = dict[tuple[str, str], Series]
"""The series by process and by what is counted."""


class Watch:
    """Looks at the processes of a service, and at its folder for temporary files, which nobody else uses."""

    def __init__(self, pids: Mapping[str, int], folder: Path) -> None:
        self._pids, self._folder = pids, folder
        self._used_s, self._done = self._cpu_s(), 0
        self.growth: Growth = {}

    def look(self, sessions: int) -> None:
        """Note what is there after so many sessions."""
        for name, pid in self._pids.items():
            self._note(name, MEMORY, sessions, memory_mb(pid))
            self._note(name, DESCRIPTORS, sessions, _count(PROCESSES / str(pid) / "fd"))
            self._note(name, THREADS, sessions, _count(PROCESSES / str(pid) / "task"))
        servers = tuple(path.name for path in self._folder.iterdir())
        regions = sum(path.name.startswith(servers) for path in SHARED_MEMORY.iterdir())
        self._note("machine", FOLDERS, sessions, sum(1 for _ in self._folder.rglob("*")) + regions)
        if sessions > self._done:
            used_s = self._cpu_s()
            each_ms = 1000 * (used_s - self._used_s) / (sessions - self._done)
            self._used_s, self._done = used_s, sessions
            self._note("all", PROCESSOR, sessions, each_ms)

    def _note(self, name: str, what: str, sessions: int, value: float) -> None:
        self.growth.setdefault((name, what), Series()).add(sessions, value)

    def _cpu_s(self) -> float:
        return sum(process.cpu_s for pid in self._pids.values() if (process := find_process(pid)))


def _count(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except OSError:
        return 0


@dataclass
class Sessions:
    """The sessions that were opened."""

    done: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    finals: int = 0


Show = Callable[[Sessions, float], None]
"""Shows the sessions so far, and after how many seconds."""


async def run(url: str, audio: bytes, number: int, together: int, every: int, watch: Watch, show: Show) -> Sessions:
    """Open so many sessions, some of them together, and look every so many. Each says this audio."""
    sessions, began = Sessions(), time.monotonic()
    left = iter(range(number))

    async def work() -> None:
        for _ in left:
            try:
                finals = await _speak(url, audio)
                sessions.finals += finals
            except Exception as error:  # counted, whatever it is
                reason = f"{type(error).__name__}: {error}"
                sessions.failed[reason] = sessions.failed.get(reason, 0) + 1
            sessions.done += 1
            if sessions.done % every == 0:
                watch.look(sessions.done)
                show(sessions, time.monotonic() - began)

    watch.look(0)
    await asyncio.gather(*(work() for _ in range(together)))
    return sessions


async def _speak(url: str, audio: bytes) -> int:
    """Say this in a session of its own. Return how many finals had words."""
    async with connect(url) as session:
        await session.send(audio)
        await session.stop()
        return len([event async for event in session if event["type"] == "final"])


def table(growth: Growth) -> str:
    """Return the series as a table."""
    lines = ["| process | what | at first | at last | with 1000 sessions |", "| --- | --- | ---: | ---: | ---: |"]
    for (name, what), series in growth.items():
        slope = series.slope
        told = "" if slope is None else f"{slope.growth:+.3f} [{slope.low:+.3f}, {slope.high:+.3f}]"
        first, last = f"{series.values[0]:.1f}", f"{series.values[-1]:.1f}"
        lines.append(f"| {name} | {what} | {first} | {last} | {told} |")
    return "\n".join(lines)


def left_behind(growth: Growth) -> list[str]:
    """Return what certainly stays behind, in sentences."""
    faults: list[str] = []
    for (name, what), series in growth.items():
        slope = series.slope
        if slope is not None and slope.certain(20_000) > MOST_LEFT[what]:
            faults.append(f"{name}: at least {slope.low:.3f} {what} more with 1000 sessions")
    return faults
