"""Twelve seconds of the attack test as a program: all families, a killed process, no broken promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scripts.program import run
from workshop.attack.campaign import ATTACKS, FAMILIES

SCRIPT = "service/attack.py"
# Triton needs most of twenty seconds to start again. Hardly anything could be attacked meanwhile.
ALL_BUT_TRITON = [family for family in FAMILIES if family != "faults"] + ["the model's process is killed"]


@pytest.mark.timeout(400)  # the machine may be busy, and everything that fails must recover
def test_twelve_seconds(tmp_path: Path) -> None:
    """No words are lost or crossed, no promise is broken, and nothing is left over."""
    few = ("--bystanders", 2, "--attackers", 4, "--late", 30, "--folder", tmp_path)
    done = run(SCRIPT, *ALL_BUT_TRITON, "--minutes", 0.2, "--seed", 14, *few)
    assert done.returncode == 0, (done.stdout, done.stderr)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["broken"] == []
    assert (report["bystanders"]["lost"], report["bystanders"]["crossed"]) == (0, 0)
    # Without sessions and faults, this would prove nothing. How many inputs there are depends on the machine.
    assert report["inputs"] > 200
    assert report["bystanders"]["words"] > 5
    assert {name.partition(":")[0] for name in report["attacks"]} == set(FAMILIES)


def test_what_there_is() -> None:
    """All attacks have different names, and an unknown one is refused in a sentence."""
    listed = run(SCRIPT, "--list").stdout.splitlines()
    assert listed == [f"{attack.family}: {attack.name}" for attack in ATTACKS]
    assert len(set(listed)) == len(listed)
    done = run(SCRIPT, "nothing")
    assert done.returncode == 2
    assert "there is no attack 'nothing'" in done.stderr
