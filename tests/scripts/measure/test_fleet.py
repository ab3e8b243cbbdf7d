"""The model of a fleet: what it takes, the loss of a zone, and how near it is to a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.program import run_here

SCRIPT = "measure/fleet.py"
SECONDS = 100.0
# Of a process by itself, and for each of its sessions.
CORES = {"bridge": (0.03, 0.004), "Triton": (0.05, 0.01), "balancer": (0.01, 0.001), "store": (0.002, 0.0)}
MEMORY = {"bridge": (60.0, 0.25), "Triton": (40.0, 0.125)}
WORD_S = 1.5


def report(path: Path, at_a_time: float, **changes: object) -> Path:
    """Write the report of a run that took exactly what the costs above say."""
    nodes = {"bridge": 3, "Triton": 3}
    settings = {"minutes": 1, "sessions": 40, "at_a_time": 500, "words": [20, 40], "bridges": 3, "tritons": 3}
    taken: dict[str, Any] = {
        "seconds": SECONDS,
        "sessions": at_a_time,
        "begun": at_a_time * SECONDS / (30 * WORD_S),
        "most_sessions": 2 * at_a_time,
        "cpu_s": _sums(CORES, at_a_time, nodes),
        "memory_mb": {kind: base + each * at_a_time / 3 for kind, (base, each) in MEMORY.items()},
        "bytes": dict.fromkeys(CORES, 10000 * at_a_time * SECONDS),
        "packets": dict.fromkeys(CORES, 20 * at_a_time * SECONDS),
        "store_requests": 2 * 3 * SECONDS,
        "settings": {**settings, "every": 0.0},
        **changes,
    }
    path.write_text(json.dumps({"taken": taken}))
    return path


def _sums(costs: dict[str, tuple[float, float]], at_a_time: float, nodes: dict[str, int]) -> dict[str, float]:
    return {kind: SECONDS * (base * nodes.get(kind, 1) + each * at_a_time) for kind, (base, each) in costs.items()}


@pytest.fixture
def measured(tmp_path: Path) -> list[Path]:
    """Provide two runs with different numbers of sessions at a time."""
    return [report(tmp_path / "few.json", 12.0), report(tmp_path / "many.json", 60.0)]


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """The table that was printed, by the first cells."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    return {row[0]: row[1:] for row in cells}


def test_what_a_fleet_takes(measured: list[Path]) -> None:
    """There are as many nodes as carry all sessions while a zone is away, with no more use than is allowed."""
    done = run_here(SCRIPT, *measured, "--sessions", "1000,4000", "--cores", 4, "--most-use", 0.83)
    assert done.returncode == 0, done.stderr
    table = rows(done)
    # A bridge carries 200 sessions, a Triton 327, a balancer 3310. Each kind is in three zones, two of which must do.
    assert table["bridges"] == ["9", "30"]
    assert table["Tritons"] == ["6", "21"]
    assert table["balancers"] == ["3", "3"]
    assert table["requests to the store, for a second"] == ["18", "60"]
    assert table["Mbit/s to a bridge"] == [f"{1000 / 9 * 0.08:.1f}", f"{4000 / 30 * 0.08:.1f}"]


def test_the_loss_of_a_zone(measured: list[Path]) -> None:
    """A third of the sessions lose their bridge, others what leads there or their Triton, and all are heard again."""
    table = rows(run_here(SCRIPT, *measured, "--sessions", "3000", "--notice", 7))
    lost = dict(each.split() for each in table["a zone is lost: sessions that lose their …"][0].split(", "))
    assert int(lost["bridge"]) == pytest.approx(1000, rel=0.1)
    assert int(lost["balancer"]) == pytest.approx(667, rel=0.1)
    assert int(lost["Triton"]) == pytest.approx(444, rel=0.15)
    p50, p95, most = map(float, table["heard again after p50 / p95 / max, s"][0].split("/"))
    assert 5 < p50 <= p95 <= most < 90
    assert table["refused meanwhile"] == ["0"]
    bridge, triton = (float(use.strip(" %")) for use in table["most use of a bridge / of the Tritons"][0].split("/"))
    assert 40 < bridge <= 81
    assert 40 < triton <= 81


def test_a_dearer_recogniser(measured: list[Path]) -> None:
    """The recogniser's own cost can be given, because that of the runs is the exact model."""
    table = rows(run_here(SCRIPT, *measured, "--sessions", "1000", "--recogniser-ms", 33, "--cores", 8))
    assert int(table["Tritons"][0]) == 3 * -(-1000 // int((0.8 * 8 - 0.05) / 0.033) // 2)


def test_a_prediction(measured: list[Path], tmp_path: Path) -> None:
    """A run that costs the same is predicted from its settings alone; one that costs more is told apart."""
    settings = {"minutes": 5, "sessions": 400, "at_a_time": 500, "words": [20, 40], "bridges": 3, "tritons": 3}
    same = report(tmp_path / "same.json", 55.0, settings={**settings, "every": 0.0}, seconds=340.0)
    told = json.loads(same.read_text())
    told["taken"]["cpu_s"] = {kind: value * 3.4 for kind, value in told["taken"]["cpu_s"].items()}
    told["taken"] |= {"bytes": {}, "packets": {}, "store_requests": 0, "most_sessions": 70}
    same.write_text(json.dumps(told))
    done = run_here(SCRIPT, *measured, "--against", same)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "processor time of bridges, s" in rows(done)
    told["taken"]["cpu_s"]["bridge"] *= 1.5
    same.write_text(json.dumps(told))
    done = run_here(SCRIPT, *measured, "--against", same)
    assert done.returncode == 1
    assert "a prediction is wrong by" in done.stderr


def test_a_prediction_of_faults(measured: list[Path], tmp_path: Path) -> None:
    """What a fault costs is taken from another run, also if there are more faults in the same time."""
    words, nodes = [20, 40], {"bridges": 3, "tritons": 3}

    def run_of(name: str, seconds: float, lived: float, **settings: float) -> Path:
        every = settings["every"]
        settings_of = {"words": words, "at_a_time": 500, **nodes, **settings}
        path = report(tmp_path / name, lived / seconds, settings=settings_of)
        told = json.loads(path.read_text())
        told["taken"] |= {"seconds": seconds, "most_sessions": 0, "memory_mb": {}, "cpu_s": {}, "packets": {}}
        # A fault makes 4 kB of audio come again for each session, and asks the store once.
        told["taken"] |= {
            "bytes": {"bridge": lived * (10000 + 4000 / every)},
            "store_requests": 6 * seconds + lived / every,
        }
        path.write_text(json.dumps(told))
        return path

    # A session lasts 45 s, and 0.2 s longer for each fault.
    shorter = run_of("shorter.json", 170.0, 40 * 45 * 1.1, minutes=2, sessions=40, every=2.0)
    longer = run_of("longer.json", 660.0, 800 * 45 * 1.2, minutes=10, sessions=800, every=1.0)
    done = run_here(SCRIPT, *measured, "--against", longer, "--faults", shorter)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"MB to bridges", "requests to the store"} <= rows(done).keys()
    done = run_here(SCRIPT, *measured, "--against", longer, "--faults", longer)
    assert (done.returncode, "does not predict itself" in done.stderr) == (1, True)
    done = run_here(SCRIPT, *measured, "--against", longer)
    assert (done.returncode, "give --faults REPORT" in done.stderr) == (1, True)


def test_runs_that_say_too_little(measured: list[Path], tmp_path: Path) -> None:
    """Each mistake in what is given has its sentence."""
    foreign = tmp_path / "foreign.json"
    foreign.write_text("{}")
    settings = {"minutes": 1, "sessions": 1, "at_a_time": 9, "words": [2, 4], "bridges": 3, "tritons": 3, "every": 2}
    faulty = report(tmp_path / "faulty.json", 30.0, settings=settings)
    for arguments, complaint in (
        ((measured[0], measured[0]), "two runs with different numbers"),
        ((measured[0], foreign), "not the report of a run"),
        ((measured[0], faulty), "runs without faults"),
        ((*measured, "--against", faulty, "--faults", measured[0]), "had no faults"),
        ((*measured, "--zones", 1), "with one zone nothing is left"),
        ((*measured, "--most-use", 0.01), "carries no session"),
    ):
        done = run_here(SCRIPT, *arguments)
        assert done.returncode == 1
        assert complaint in done.stderr
