"""What a load measurement found: quantiles, the knee, and what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.commands.traffic.results import (
    CLIENTS,
    Batches,
    Delay,
    Graphics,
    Knee,
    Level,
    Limit,
    Pressure,
    WordCount,
    Work,
    complaints,
    knee,
    level_content,
    limit_of,
    quantiles,
)


def level(sessions: int, last: float = 0.1, partial: float = 0.1) -> Level:
    """A level that was measured to its end, with these delays."""
    found = Level(sessions, whole=True, live=sessions)
    found.delays[Delay.LAST] += [last] * 10
    found.delays[Delay.PARTIAL] += [partial] * 10
    return found


def test_quantiles() -> None:
    """A quantile is a value that occurred, and so many values are not above it."""
    found = quantiles(range(1, 101))
    assert found is not None
    assert (found.count, found.p50, found.p95, found.p99, found.most) == (100, 50, 95, 99, 100)
    few = quantiles([3.0, 1.0])
    assert few is not None
    assert (few.p50, few.p95, few.most) == (1.0, 3.0, 3.0)
    assert quantiles([]) is None


def test_the_knee_is_between_two_levels() -> None:
    """It is where the line between the last level that holds and the next one crosses the bound."""
    for levels, sessions, limit in (
        ([level(8), level(16, last=0.3), level(32, last=0.7)], 24.0, Limit.LAST),
        ([level(8), level(16, partial=0.74)], 12.0, Limit.PARTIALS),
    ):
        found = knee(levels)
        assert found is not None
        assert (found.sessions, found.limit) == (pytest.approx(sessions), limit)
    # Both are broken, and the knee is where the first one breaks.
    both = knee([level(8), level(16, last=0.9, partial=4.1)])
    assert both is not None
    assert both.sessions == pytest.approx(8.64)


def test_a_slow_moment_is_no_knee() -> None:
    """A level below one that holds does not count."""
    assert knee([level(1, last=3.0), level(2), level(4)]) == Knee(4.0, Limit.NOTHING)


def test_no_knee() -> None:
    """Without a level there is none; if none holds, it is 0; a level that was interrupted does not count."""
    assert knee([]) is None
    assert knee([level(4, last=2.0)]) == Knee(0.0, Limit.LAST)
    cut = level(8, last=9.0)
    cut.whole = False
    assert knee([level(4), cut]) == Knee(4.0, Limit.NOTHING)


def test_refusals_and_failures_are_a_limit() -> None:
    """If sessions are refused or fail, the level below is the knee."""
    refused, failed = level(8), level(16)
    refused.refused["full"] += 3
    failed.failed["lost"] += 1
    assert (limit_of(refused), limit_of(failed)) == (Limit.REFUSED, Limit.FAILED)
    assert knee([level(4), refused]) == Knee(4.0, Limit.REFUSED)
    assert list(complaints([level(4), refused, failed])) == [
        "with 8 sessions, the service admitted 8 at a time; refusals: full 3",
        "with 16 sessions, 1 did not end in order: lost 1",
    ]


def test_pressure() -> None:
    """A client that is busy or late makes the figures its own."""
    found = level(4)
    assert found.pressure is Pressure.NONE
    found.client_cpu = 0.9
    assert found.pressure is Pressure.BUSY
    found.late_s += [0.2] * 10
    assert found.pressure is Pressure.LATE


def test_content() -> None:
    """All of a level is in its JSON, and what is unknown is null."""
    found = level(4)
    assert json.loads(json.dumps(level_content(found)))["batches"] is None
    found.words += WordCount(2, 40, 4)
    found.audio_s = 10.0
    found.work = {"bridge": Work(0.5, 80.0, 1), "model": Work(1.0, 200.0, 2), CLIENTS: Work(9.0, 50.0, 2)}
    found.batches = Batches(10, 25, 4.0)
    found.graphics = Graphics(0.25, 1000.0)
    content: Any = level_content(found)
    assert content["words"] == {"sessions": 2, "words": 40, "errors": 4, "rate": 0.1}
    assert content["processes"]["bridge"]["cpu_ms_per_audio_s"] == 50.0
    assert content["delays_s"]["last"]["p95"] == 0.1
    assert content["delays_s"]["first"] is None
    assert content["batches"] == {"number": 10, "requests": 25, "mean": 2.5, "p95": 4.0}
    assert content["gpu"] == {"busy": 0.25, "memory_mb": 1000}
    assert found.service_cpu_s == 1.5
