"""The script that prepares speech."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run, run_here
from tests.workshop.data.given_folder import make_given
from workshop.data.corpus import Corpus

SCRIPT = "data/prepare_speech.py"


def test_given_speech_is_prepared(tmp_path: Path) -> None:
    """One line about each set says what it contains."""
    done = run(SCRIPT, "--speech", make_given(tmp_path / "given"), "--work", tmp_path / "work", "--processes", 1)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["train", "dev", "train", "noise", "rooms"]
    assert len(Corpus(tmp_path / "work", "train").utterances) == 2


def test_nothing_to_do_is_said(tmp_path: Path) -> None:
    """If there is nothing to do, one sentence says what to do about it."""
    done = run_here(SCRIPT, "--work", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "prepare_speech: there is nothing to do: give --speech, --synthetic-hours or both\n"
