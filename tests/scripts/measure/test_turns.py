"""The script that measures the ends of turns, with a model of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.bundle_of_samples import bundle_of_samples
from tests.project import BUNDLE
from tests.scripts.program import run_here
from tests.workshop.prepared_speech import prepare_speech

SCRIPT = "measure/turns.py"


def test_the_steps_are_those_of_the_model(tmp_path: Path) -> None:
    """A usual step becomes the nearest one of the model, and the table has a line for each rule."""
    work = prepare_speech(tmp_path / "work")
    bundles = {BUNDLE: (("320", "320"),), bundle_of_samples(tmp_path / "samples"): (("160", "144"), ("336", "336"))}
    for bundle, steps in bundles.items():
        for wanted, own in steps:
            done = run_here(SCRIPT, "--work", work, "--bundle", bundle, "--turns", 2, "--step-ms", wanted)
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith(f"2 turns, steps of {own} ms\n")
            assert len([line for line in done.stdout.splitlines() if line.startswith(("| silence", "| turn"))]) == 8


@pytest.mark.parametrize(("step_ms", "complaint"), [("200", "no step of 200 ms, but those of 160, 320, 640 ms")])
def test_a_step_that_the_model_does_not_have(tmp_path: Path, step_ms: str, complaint: str) -> None:
    """One sentence names its steps."""
    work = prepare_speech(tmp_path)
    done = run_here(SCRIPT, "--work", work, "--bundle", BUNDLE, "--step-ms", step_ms)
    assert done.returncode == 1
    assert complaint in done.stderr
