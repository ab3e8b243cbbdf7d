"""The report of `scripts/service/soak.py faults`: its sums and its complaints."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from workshop.soak.report import MemorySample, SoakReport, slope


def life(pid: int, begin: float, end: float, level: float, per_session: float) -> list[MemorySample]:
    """Return samples of a process whose memory grows with the sessions, of which ten end in a second."""
    return [
        MemorySample(at, int(10 * at), "bridge", pid, level + per_session * 10 * at)
        for at in (begin + step for step in range(int(end - begin)))
    ]


def test_slope() -> None:
    """The slope is in megabytes per 1000 sessions, whatever the level."""
    growth, sessions = slope(life(1, 0, 400, 70, 0.005), 200)
    assert growth == pytest.approx(5.0)
    assert 1000 < sessions < 2000
    assert slope(life(1, 0, 400, 70, 0.0), 200)[0] == pytest.approx(0.0)


def test_slope_of_processes_that_were_started_again() -> None:
    """Each process has its own level, and growth right after its start does not count."""
    samples = life(1, 0, 150, 70, 0.001) + life(2, 155, 300, 20, 0.001) + life(3, 301, 440, 500, 0.001)
    growth, _ = slope(samples, 0)
    assert growth == pytest.approx(1.0)
    filling = [MemorySample(at, int(10 * at), "bridge", 9, min(at, 20.0)) for at in range(120)]
    assert slope(filling, 0)[0] == pytest.approx(0.0)
    assert slope(life(1, 0, 100, 70, 1.0), 0) == (0.0, 0)


def test_slope_of_what_comes_and_goes() -> None:
    """Memory of running sessions does not count as growth, however large it is; memory that stays does."""
    waves = [
        MemorySample(at, int(10 * at), "bridge", 1, 70 + 0.002 * 10 * at + 30 * abs(math.sin(math.pi * at / 45)))
        for at in range(600)
    ]
    assert slope(waves, 300)[0] == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"broken": 2}, "2 sessions"),
        ({"left": {"slots": 1.0, "sessions": 0.0}}, "slots at the end: 1"),
        ({"samples": life(1, 0, 400, 70, 0.05)}, "the memory of bridge grows by 50.0 MB"),
        ({"complaints": ["process 7 is left"]}, "process 7 is left"),
    ],
)
def test_what_must_not_be(change: dict[str, object], complaint: str) -> None:
    """Each failure has its own sentence."""
    report = SoakReport(1, seconds=400, left={"slots": 0.0})
    assert list(report.failures()) == []
    for name, value in change.items():
        setattr(report, name, value)
    assert [complaint in found for found in report.failures()] == [True]


def test_gaps() -> None:
    """The report has the lengths of the recoveries."""
    report = SoakReport(1, gaps_ms=list(range(1000, 101_000, 1000)), recoveries=100)
    assert report.as_json()["gap_ms"] == {"p50": 51_000, "p95": 95_000, "max": 100_000}
    assert "gap p50 51.0 s, p95 95.0 s, max 100.0 s" in report.table()
    assert SoakReport(1).as_json()["gap_ms"]["max"] == 0


def test_outages() -> None:
    """The report has the distribution of the times in which clients found back, if it is that of a network."""
    assert SoakReport(1).as_json()["outage_s"] == {}
    report = SoakReport(1, outages_s=[each / 10 for each in range(1, 101)], missed=Counter({"bridge killed": 2}))
    outages = report.as_json()["outage_s"]
    assert outages["count"] == 100
    assert (outages["p50"], outages["p99"], outages["max"]) == (5.1, 10.0, 10.0)
    assert outages["within_s"] == {"0.5": 5, "1": 10, "2": 20, "5": 50, "10": 100, "20": 100, "60": 100}
    assert report.as_json()["missed_faults"] == {"bridge killed": 2}
    assert "100 times; p50 5.1 s" in report.table()
    assert "time until a client has found back" not in SoakReport(1).table()
