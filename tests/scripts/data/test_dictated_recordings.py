"""The script that prepares recordings of people who dictate."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here
from tests.workshop.labelling.dictated_folder import make_collection

SCRIPT = "data/dictated_recordings.py"


def test_a_collection_is_prepared(tmp_path: Path) -> None:
    """The script says what is to be evaluated and what to train on."""
    folder, more = make_collection(tmp_path / "clone"), tmp_path / "more"
    done = run_here(SCRIPT, folder, "--train", more)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"{folder / 'dictated.tsv'}: 3 recordings", f"{more}: 2 recordings, 0.00 h"],
    )


def test_another_folder_is_one_sentence(tmp_path: Path) -> None:
    """A folder without the table is named."""
    done = run_here(SCRIPT, tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path / 'metadata.csv'} is missing" in done.stderr
    assert done.stderr.count("\n") == 1
