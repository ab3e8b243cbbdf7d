"""The script that runs all steps after a change of the weights."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here

SCRIPT = "train/weights_changed.py"


def test_the_steps_are_listed_with_their_commands_and_minutes(tmp_path: Path) -> None:
    """--list runs and writes nothing."""
    done = run_here(SCRIPT, "--work", "w", "--speech", "s", "--to", "steps", "--list", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["search", "8", "min", "weights", "of", "the", "search"]
    assert "scripts/train/tune_search.py --work w --cache steps/cache" in lines[1]
    assert not list(tmp_path.iterdir())


def test_the_held_out_set_is_measured_beside_dev(tmp_path: Path) -> None:
    """With --heldout, its manifest is evaluated, too."""
    given = ("--work", "w", "--speech", "s", "--to", "steps", "--list")
    assert "heldout.tsv" not in run_here(SCRIPT, *given, folder=tmp_path).stdout
    done = run_here(SCRIPT, *given, "--heldout", "strangers", folder=tmp_path)
    assert "streamer evaluate strangers/heldout.tsv --engine --second-pass on" in done.stdout


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Missing data gives one sentence and status 1."""
    done = run_here(SCRIPT, "--to", "steps", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "weights_changed: the steps need --work and --speech\n")
