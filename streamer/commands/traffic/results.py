"""What a load measurement found: delays, words, refusals and the work of the machine, by level; and the knee. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from typing import Final

from streamer.base.json_types import JsonObject

PARTS: Final = (0.5, 0.95, 0.99)


class Delay(str, Enum):
    """What is waited for. All delays are in seconds."""

    FIRST = "first"
    """From the first sample of the audio to the first text."""
    PARTIAL = "partial"
    """From the end of the audio that a partial covers to the arrival of the partial."""
    WORD = "word"
    """From the end of a word to the first message that has it in its place, or nearly."""
    FINAL = "final"
    """From the end of the last word of a final to its arrival, while the audio goes on."""
    LAST = "last"
    """From the last sample of the audio until its last words are certain: in a final, or because all are known."""


class End(str, Enum):
    """How a measurement ended."""

    WHOLE = "whole"
    INTERRUPTED = "interrupted"
    SERVICE_DIED = "service died"
    CLIENT_DIED = "client died"


class Pressure(str, Enum):
    """Whether the clients kept the pace of speech."""

    NONE = "kept the pace"
    BUSY = "were busy"
    LATE = "were late"


@dataclass(frozen=True)
class Quantiles:
    """Delays in short: how many there were, and within which time these parts of them came."""

    count: int
    p50: float
    p95: float
    p99: float
    most: float

    def content(self) -> dict[str, float]:
        """Return it for JSON, in seconds."""
        return {"count": self.count, **{name: round(getattr(self, name), 4) for name in ("p50", "p95", "p99", "most")}}


def quantiles(values: Iterable[float]) -> Quantiles | None:
    """Return these values in short; None if there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p95, p99 = (ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)] for part in PARTS)
    return Quantiles(len(ordered), p50, p95, p99, ordered[-1])


@dataclass(frozen=True)
class WordCount:
    """The words of the texts of sessions that came to their end, and the errors in what was recognised."""

    sessions: int = 0
    words: int = 0
    errors: int = 0

    def __add__(self, other: WordCount) -> WordCount:
        return WordCount(self.sessions + other.sessions, self.words + other.words, self.errors + other.errors)

    @property
    def rate(self) -> float | None:
        """The errors as a part of the words; None without words."""
        return self.errors / self.words if self.words else None


@dataclass(frozen=True)
class Batches:
    """The batches of the model while a level was measured."""

    number: float
    requests: float
    p95: float | None = None  # the bound below which 95 of 100 batches are

    @property
    def mean(self) -> float:
        """The mean number of requests in a batch."""
        return self.requests / self.number if self.number else 0.0


@dataclass(frozen=True)
class Work:
    """What one kind of process used: processor time while a level was measured, and the most memory."""

    cpu_s: float
    memory_mb: float
    processes: int


@dataclass(frozen=True)
class Graphics:
    """What the GPUs did: the mean share of the time in which they computed, and the most memory."""

    busy: float
    memory_mb: float


@dataclass
class Level:
    """What was found with one number of sessions."""

    sessions: int
    delays: dict[Delay, list[float]] = field(default_factory=lambda: {kind: [] for kind in Delay})
    words: WordCount = field(default_factory=WordCount)
    opened: int = 0
    done: int = 0  # sessions that ended in order
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    recovered: int = 0
    live: int = 0  # the most sessions at a time
    audio_s: float = 0.0  # the audio that was sent while it was measured
    measured_s: float = 0.0
    work: dict[str, Work] = field(default_factory=dict)
    graphics: Graphics | None = None
    batches: Batches | None = None
    client_cpu: float = 0.0  # of the busiest client process, as a part of one processor
    late_s: list[float] = field(default_factory=list)  # how late the clients did what they wanted to do
    whole: bool = False  # it was measured to its end

    def quantiles(self, kind: Delay) -> Quantiles | None:
        """Return delays of one kind in short."""
        return quantiles(self.delays[kind])

    @property
    def service_cpu_s(self) -> float:
        """The processor time of the service: all processes but those of the measurement."""
        return sum(work.cpu_s for name, work in self.work.items() if name not in OURS)

    def cost_ms(self, cpu_s: float) -> float | None:
        """Return processor time in milliseconds for a second of audio."""
        return 1000 * cpu_s / self.audio_s if self.audio_s else None

    @property
    def pressure(self) -> Pressure:
        """Whether the clients are the bottleneck."""
        late = quantiles(self.late_s)
        if late is not None and late.p95 > MOST_LATE_S:
            return Pressure.LATE
        return Pressure.BUSY if self.client_cpu > MOST_CLIENT_CPU else Pressure.NONE


CLIENTS: Final = "clients"
COMMAND: Final = "this command"
OURS: Final = (CLIENTS, COMMAND)
# A client that is this busy or this late measures itself, not the service.
MOST_CLIENT_CPU: Final = 0.8
MOST_LATE_S: Final = 0.05

# The bounds of a level that holds: a partial comes within a step and a tenth of a second, the last words within half a
# second. (In 95 of 100 cases.)
BOUNDS: Final[Mapping[Delay, float]] = {Delay.PARTIAL: 0.42, Delay.LAST: 0.5}


class Limit(str, Enum):
    """What limits the sessions."""

    NOTHING = "not reached"
    PARTIALS = "partials"
    LAST = "last words"
    REFUSED = "refused"
    FAILED = "failed"


def limit_of(level: Level) -> Limit:
    """Return what does not hold at this level; NOTHING if all does."""
    if level.refused:
        return Limit.REFUSED
    if level.failed:
        return Limit.FAILED
    for kind, limit in ((Delay.LAST, Limit.LAST), (Delay.PARTIAL, Limit.PARTIALS)):
        found = level.quantiles(kind)
        if found is not None and found.p95 > BOUNDS[kind]:
            return limit
    return Limit.NOTHING


@dataclass(frozen=True)
class Knee:
    """The number of sessions up to which every bound holds. 0 if none of the levels holds."""

    sessions: float
    limit: Limit  # what breaks beyond it; NOTHING if the highest level holds


def knee(levels: Iterable[Level]) -> Knee | None:
    """Return the knee: on the line between the highest level that holds and the next one. None without a level.

    One slow moment may break a level with few sessions, so levels below one that holds do not count.
    """
    measured = [level for level in sorted(levels, key=lambda each: each.sessions) if level.whole]
    beyond = list(takewhile(lambda level: limit_of(level) is not Limit.NOTHING, reversed(measured)))
    if not measured or not beyond:
        return Knee(float(measured[-1].sessions), Limit.NOTHING) if measured else None
    above, limit = beyond[-1], limit_of(beyond[-1])
    if len(beyond) == len(measured):
        return Knee(0.0, limit)
    below = measured[-len(beyond) - 1]
    crossings = [_crossing(below, above, kind) for kind in BOUNDS] if limit in (Limit.LAST, Limit.PARTIALS) else []
    return Knee(min((each for each in crossings if each is not None), default=float(below.sessions)), limit)


def _crossing(below: Level, above: Level, kind: Delay) -> float | None:
    """Return where the line between two levels crosses the bound; None if it does not."""
    low, high, bound = below.quantiles(kind), above.quantiles(kind), BOUNDS[kind]
    if low is None or high is None or high.p95 <= bound:
        return None
    share = (bound - low.p95) / (high.p95 - low.p95)
    return below.sessions + share * (above.sessions - below.sessions)


def complaints(levels: Iterable[Level]) -> Iterator[str]:
    """Yield a sentence for each thing that keeps the exit status from being 0."""
    for level in levels:
        at = f"with {level.sessions} {'session' if level.sessions == 1 else 'sessions'}"
        if level.refused:
            codes = _codes(level.refused)
            yield f"{at}, the service admitted {level.live} at a time; refusals: {codes}"
        if level.failed:
            yield f"{at}, {level.failed.total()} did not end in order: {_codes(level.failed)}"


def _codes(counts: Counter[str]) -> str:
    return ", ".join(f"{code} {number}" for code, number in counts.most_common())


def level_content(level: Level) -> JsonObject:
    """Return a level for JSON."""
    late = quantiles(level.late_s)
    return {
        "sessions": level.sessions,
        "whole": level.whole,
        "delays_s": {
            kind.value: None if (found := level.quantiles(kind)) is None else found.content() for kind in Delay
        },
        "words": {
            "sessions": level.words.sessions,
            "words": level.words.words,
            "errors": level.words.errors,
            "rate": None if level.words.rate is None else round(level.words.rate, 4),
        },
        "opened": level.opened,
        "done": level.done,
        "live": level.live,
        "refused": dict(level.refused),
        "failed": dict(level.failed),
        "recovered": level.recovered,
        "audio_s": round(level.audio_s, 1),
        "measured_s": round(level.measured_s, 2),
        "processes": {
            name: {
                "processes": work.processes,
                "cpu_s": round(work.cpu_s, 2),
                "cpu_ms_per_audio_s": _rounded(level.cost_ms(work.cpu_s)),
                "memory_mb": round(work.memory_mb, 1),
            }
            for name, work in level.work.items()
        },
        "gpu": None
        if level.graphics is None
        else {"busy": round(level.graphics.busy, 3), "memory_mb": round(level.graphics.memory_mb)},
        "batches": None
        if level.batches is None
        else {
            "number": round(level.batches.number),
            "requests": round(level.batches.requests),
            "mean": round(level.batches.mean, 2),
            "p95": level.batches.p95,
        },
        "clients": {
            "busiest": round(level.client_cpu, 3),
            "late_s": None if late is None else late.content(),
            "pressure": level.pressure.value,
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
