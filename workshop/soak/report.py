"""Sums up a soak: sessions, words, faults, and whether memory grows with the number of sessions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamer.base.text import counted
from workshop.soak.scripted_client import SessionRecord
from workshop.soak.session_check import RESTARTED, Verdict

# A process that has just started fills its caches, which does not count as growth.
SETTLING_S = 30.0
# The number of sessions rises and falls in waves of this length.
WINDOW_S = 45.0
FEWEST_WINDOWS = 2
# With fewer sessions than this the slope says nothing, so no bound applies.
FEWEST_SESSIONS = 1000
MOST_GROWTH_MB = 4.0  # per 1000 sessions
PARTS = (50, 75, 90, 95, 99)  # of the distribution of outages, in percent
OUTAGE_BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
ACTIONS = {
    "cut": "connections cut",
    "takeover": "connections taken over",
    "vanish": "clients gone without a close",
}


@dataclass(frozen=True)
class MemorySample:
    """The memory of a process at a time when this many sessions were over."""

    at: float
    sessions: int
    name: str
    pid: int
    memory_mb: float


@dataclass
class SoakReport:
    """Collects the results of sessions as they end."""

    seed: int
    seconds: float = 0.0
    sessions: int = 0
    audio_s: float = 0.0
    words: int = 0
    lost: int = 0
    doubled: int = 0
    crossed: int = 0
    altered: int = 0
    broken: int = 0  # sessions with an error
    resumes: int = 0
    recoveries: int = 0
    gaps_ms: list[int] = field(default_factory=list)
    read_by: Counter[str] = field(default_factory=Counter)  # the finals that say who has read them
    formats: Counter[str] = field(default_factory=Counter)
    format_words: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    actions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)  # those of them that had nothing to affect
    outages_s: list[float] = field(default_factory=list)  # from the last message of a lost service until all is heard
    packets: dict[str, int] = field(default_factory=dict)  # what happened to them, in a network
    taken: dict[str, object] = field(
        default_factory=dict
    )  # what the nodes of a network took, for scripts/measure/fleet.py
    clocks_s: list[float] = field(default_factory=list)  # by how much those of the bridges of a network were wrong
    restarts: int = 0
    left: dict[str, float] = field(default_factory=dict)  # what was left when all sessions were over
    complaints: list[str] = field(default_factory=list)  # errors that belong to no session
    samples: list[MemorySample] = field(default_factory=list)

    def add(self, record: SessionRecord, verdict: Verdict) -> None:
        """Add a session that is over."""
        self.sessions += 1
        self.audio_s += record.sent / record.plan.bytes_per_ms / 1000
        self.words += verdict.words
        self.lost += verdict.lost
        self.doubled += verdict.doubled
        self.crossed += verdict.crossed
        self.altered += verdict.altered
        self.broken += bool(verdict.broken)
        self.resumes += record.resumes
        self.kinds[record.plan.kind] += 1
        self.ends[record.ended] += 1
        self.refusals += record.refusals
        self.actions += record.actions
        gaps = [event["gap_ms"] for _, event in record.events if event["type"] == "recovered"]
        self.recoveries += len(gaps)
        self.gaps_ms += gaps
        self.outages_s += [back - lost for lost, back in record.outages]
        self.read_by.update(event["read_by"] for _, event in record.events if event.get("read_by"))

    def slopes(self) -> dict[str, tuple[float, int]]:
        """Return the memory growth in the second half (MB per 1000 sessions) and the sessions, by kind of process."""
        return {name: slope(samples, self.seconds / 2) for name, samples in self._by_name().items()}

    def failures(self) -> Iterator[str]:
        """Yield a sentence for each failure."""
        if self.broken:
            yield f"{counted(self.broken, 'session')} got wrong results"
        for name, amount in self.left.items():
            if amount:
                yield f"{name} at the end: {amount:g}"
        for name, (growth, sessions) in self.slopes().items():
            if sessions >= FEWEST_SESSIONS and growth > MOST_GROWTH_MB:
                yield f"the memory of {name} grows by {growth:.1f} MB per 1000 sessions"
        yield from self.complaints

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, without the samples of memory."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "sessions": self.sessions,
            "audio_hours": round(self.audio_s / 3600, 2),
            "words": self.words,
            **{name: getattr(self, name) for name in ("lost", "doubled", "crossed", "altered", "broken")},
            "read_by": dict(self.read_by),
            "formats": dict(self.formats),
            "format_words": dict(self.format_words),
            "kinds": dict(self.kinds),
            "ends": dict(self.ends),
            "faults": dict(self.faults),
            "missed_faults": dict(self.missed),
            "outage_s": self._outages(),
            "packets": self.packets,
            "taken": self.taken,
            "clocks_wrong_by_s": self.clocks_s,
            "actions": dict(self.actions),
            "recoveries": self.recoveries,
            "gap_ms": dict(zip(("p50", "p95", "max"), self._gaps(), strict=True)),
            "resumes": self.resumes,
            "refusals": dict(self.refusals),
            "restarts": self.restarts,
            "left": self.left,
            "memory_mb_per_1000_sessions": {name: round(growth, 2) for name, (growth, _) in self.slopes().items()},
            "complaints": self.complaints,
        }

    def memory(self) -> str:
        """Return the samples of memory as a table with tabs."""
        rows = (f"{s.at:.1f}\t{s.sessions}\t{s.name}\t{s.pid}\t{s.memory_mb:.2f}" for s in self.samples)
        return "\n".join(["seconds\tsessions\tprocess\tpid\tMB", *rows]) + "\n"

    def table(self) -> str:
        """Return the main figures as a Markdown table."""
        p50, p95, most = (gap / 1000 for gap in self._gaps())
        words = self.lost, self.doubled, self.crossed, self.altered
        rows = {
            "sessions": f"{self.sessions} in {self.seconds / 60:.1f} min; {self.audio_s / 3600:.1f} h of audio",
            "sessions by format, and their words": ", ".join(
                f"{name} {number} ({self.format_words[name]})" for name, number in self.formats.most_common()
            ),
            "ended by": _listed(self.ends),
            "words received": f"{self.words}",
            "words lost / doubled / from another session / altered": " / ".join(map(str, words)),
            "finals of native sessions that want to be read again": _listed(self.read_by) or "0",
            "sessions with an error": f"{self.broken}",
            "faults": f"{sum(self.faults.values())}: {_listed(self.faults)}",
            "faults by clients": _listed(Counter({ACTIONS[name]: self.actions[name] for name in ACTIONS})),
            "recoveries": f"{self.recoveries}; gap p50 {p50:.1f} s, p95 {p95:.1f} s, max {most:.1f} s",
            "resumes": f"{self.resumes}",
            **self._rows_of_a_network(),
            "refused, then retried": _listed(self.refusals) or "0",
            "left at the end": ", ".join(f"{name} {amount:g}" for name, amount in self.left.items()),
            "memory, MB for 1000 sessions": ", ".join(
                f"{name} {growth:+.2f} (over {sessions})" if sessions else f"{name}: too short to tell"
                for name, (growth, sessions) in self.slopes().items()
            ),
        }
        return "\n".join(
            ["| what | result |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows.items())]
        )

    def _outages(self) -> dict[str, Any]:
        """Return the distribution of the times that clients needed to find back to all that had been heard."""
        ranked = sorted(self.outages_s)
        if not ranked:
            return {}
        parts = {f"p{part}": round(ranked[min(len(ranked) - 1, len(ranked) * part // 100)], 2) for part in PARTS}
        within = {f"{bound:g}": sum(outage <= bound for outage in ranked) for bound in OUTAGE_BOUNDS_S}
        return {"count": len(ranked), **parts, "max": round(ranked[-1], 2), "within_s": within}

    def _rows_of_a_network(self) -> dict[str, str]:
        outages = self._outages()
        if not outages:
            return {}
        parts = ", ".join(f"{name} {outages[name]:.1f} s" for name in (*(f"p{part}" for part in PARTS), "max"))
        return {
            "faults without anything to affect": _listed(self.missed) or "0",
            "begun again at a bridge": f"{self.actions[RESTARTED]}",
            "time until a client has found back": f"{outages['count']} times; {parts}",
            "packets": _listed({name: number for name, number in self.packets.items() if " to " not in name}),
        }

    def _gaps(self) -> tuple[int, int, int]:
        ranked = sorted(self.gaps_ms) or [0]
        return ranked[len(ranked) // 2], ranked[int(0.95 * (len(ranked) - 1))], ranked[-1]

    def _by_name(self) -> dict[str, list[MemorySample]]:
        samples_by_name: dict[str, list[MemorySample]] = defaultdict(list)
        for sample in self.samples:
            samples_by_name[sample.name].append(sample)
        return samples_by_name


def slope(samples: Sequence[MemorySample], since: float) -> tuple[float, int]:
    """Return the growth of processes of one kind in MB per 1000 sessions, and the sessions.

    Each process has a level of its own, and all have the same slope.
    """
    above = below = 0.0
    covered = 0
    lives: dict[int, list[MemorySample]] = defaultdict(list)
    for sample in samples:
        lives[sample.pid].append(sample)
    for life in lives.values():
        least = _least([sample for sample in life if sample.at >= max(since, life[0].at + SETTLING_S)])
        if len(least) < FEWEST_WINDOWS:
            continue
        sessions = np.array([sample.sessions for sample in least], dtype=float)
        memory = np.array([sample.memory_mb for sample in least])
        above += float(((sessions - sessions.mean()) * (memory - memory.mean())).sum())
        below += float(((sessions - sessions.mean()) ** 2).sum())
        covered += int(sessions[-1] - sessions[0])
    return (1000 * above / below if below else 0.0), covered


def _least(samples: Sequence[MemorySample]) -> list[MemorySample]:
    """Return the least memory in each complete window, because the memory of running sessions comes and goes."""
    if not samples:
        return []
    begin, end = samples[0].at, samples[-1].at
    windows = int((end - begin) / WINDOW_S)
    parts: list[list[MemorySample]] = [[] for _ in range(windows)]
    for sample in samples:
        if (number := int((sample.at - begin) / WINDOW_S)) < windows:
            parts[number].append(sample)
    return [min(part, key=lambda sample: sample.memory_mb) for part in parts if part]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda entry: -entry[1]) if count)
