"""The soak test as a program, for some seconds: many sessions, failing Tritons, bridges and links, no lost word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts.program import run

SCRIPT = "service/soak.py"


@pytest.mark.timeout(400)  # the machine may be busy, and everything that fails must recover
def test_fifteen_seconds(tmp_path: Path) -> None:
    """No words are lost, doubled or crossed, and no slots, sessions, processes or shared memory are left."""
    few = ("--at-a-time", 14, "--slots", 10, "--folder", tmp_path)
    done = run(SCRIPT, "faults", "--minutes", 0.25, "--seed", 11, "--every", 2, *few)
    broken = [path.read_text() for path in tmp_path.glob("session-*.json")]
    assert done.returncode == 0, (done.stdout, done.stderr, broken[:1])
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["lost"], report["doubled"], report["crossed"], report["altered"]) == (0, 0, 0, 0)
    assert not any(report["left"].values())
    # Without enough sessions and faults, this would prove nothing.
    assert report["sessions"] > 25
    assert report["words"] > 200
    assert sum(report["faults"].values()) >= 5
    assert report["resumes"] > 3
    assert len(report["formats"]) > 3
    assert report["recoveries"] > 0
    assert report["read_by"]["reader"] > 3
    assert len(report["ends"]) > 3


@pytest.mark.timeout(400)  # as above
def test_half_a_minute_of_a_network(tmp_path: Path) -> None:
    """Three bridges and Tritons, whose links and nodes fail: no word is lost, and clients find back."""
    few = ("--sessions", 40, "--at-a-time", 16, "--words", "4-10", "--every", 1.0)
    done = run(SCRIPT, "network", "--minutes", 0.5, "--seed", 4, *few, "--folder", tmp_path)
    broken = [path.read_text() for path in tmp_path.glob("session-*.json")]
    assert done.returncode == 0, (done.stdout, done.stderr, broken[:1])
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["lost"], report["doubled"], report["crossed"], report["altered"]) == (0, 0, 0, 0)
    assert not any(report["left"].values())
    # Without enough sessions and faults, this would prove nothing.
    assert report["sessions"] > 20
    assert report["words"] > 100
    assert sum(report["faults"].values()) - sum(report["missed_faults"].values()) >= 10
    assert report["outage_s"]["count"] > 3
    assert report["packets"]["delayed"] > 100
    assert len({round(clock) for clock in report["clocks_wrong_by_s"]}) >= 3
    taken = report["taken"]
    assert min(taken["cpu_s"][kind] for kind in ("bridge", "Triton", "balancer")) > 0
    assert min(taken["bytes"][kind] for kind in ("bridge", "Triton", "balancer", "clients")) > 0
    assert taken["sessions"] > 1


def test_words_that_are_no_range(tmp_path: Path) -> None:
    """A wrong number of words is refused before anything starts."""
    done = run(SCRIPT, "network", "--words", "9-3", "--folder", tmp_path)
    assert done.returncode == 2
    assert "two whole numbers" in done.stderr


def test_a_public_model_that_cannot_be_used(tmp_path: Path) -> None:
    """An error in the folder of the model is reported before anything starts."""
    done = run(SCRIPT, "faults", "--public-model", tmp_path)
    assert done.returncode == 1
    assert "soak: --public-model names" in done.stderr
    assert "which is not the folder of a model" in done.stderr
