"""The script that makes the held-out set."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here
from tests.workshop.data.held_out_tables import publish

SCRIPT = "data/held_out_speech.py"


def test_a_set_is_made_and_described(tmp_path: Path) -> None:
    """The script says where the manifest is, what is in the set, and how its texts were found."""
    published = publish(tmp_path)
    tables = ("--tables", published.tables, "--origin", f"file://{published.origin}")
    done = run_here(SCRIPT, "--to", tmp_path / "set", *tables)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            f"{tmp_path / 'set' / 'heldout.tsv'}",
            "talks: 2 recordings, 1 speaker, 0.0 min",
            "prompts: 1 recording, 1 speaker, 0.0 min",
            "1 x two readers wrote the same",
            "1 x some words decided by comparing the three",
            "1 x text of the source",
        ],
    )


def test_a_leak_gives_status_1(tmp_path: Path) -> None:
    """A sentence of another manifest that is in the set is printed."""
    published, manifest = publish(tmp_path), tmp_path / "train.tsv"
    manifest.write_text("corpus\ttext\nx\tGOOD MORNING\n")
    tables = ("--tables", published.tables, "--origin", f"file://{published.origin}")
    done = run_here(SCRIPT, "--to", tmp_path / "set", *tables, "--leaks", manifest)
    assert done.returncode == 1
    assert done.stdout.endswith("train.tsv, x: good morning\n")


def test_a_missing_repository_is_one_sentence(tmp_path: Path) -> None:
    """The repository and the commit are named."""
    published = publish(tmp_path)
    tables = ("--tables", published.tables, "--origin", f"file://{tmp_path / 'nowhere'}")
    done = run_here(SCRIPT, "--to", tmp_path / "set", *tables)
    assert done.returncode == 1
    assert done.stderr.startswith("held_out_speech: anna/talks has no commit ")
    assert done.stderr.count("\n") == 1
