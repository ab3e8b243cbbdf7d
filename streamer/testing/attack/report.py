"""The report of a run of attacks: inputs and answers by kind, the observations of bystanders, and broken promises."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamer.testing.attack.attack import Strike
from streamer.testing.attack.bystanders import Witness


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
