"""Fifteen seconds of the soak test as a program: many sessions, failing Tritons, no lost word."""

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


def test_a_public_model_that_cannot_be_used(tmp_path: Path) -> None:
    """An error in the folder of the model is reported before anything starts."""
    done = run(SCRIPT, "faults", "--public-model", tmp_path)
    assert done.returncode == 1
    assert "soak: --public-model names" in done.stderr
    assert "which is not the folder of a model" in done.stderr
