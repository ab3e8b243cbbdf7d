"""The script that aligns speech."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """If the prepared set is missing, one sentence names the script that makes it."""
    done = run_here("data/align_speech.py", "--work", tmp_path, "dev")
    assert done.returncode == 1
    assert "run scripts/data/prepare_speech.py" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_share_is_for_pocketsphinx(tmp_path: Path) -> None:
    """What a model hears is for training, which needs all of it."""
    done = run_here("data/align_speech.py", "--work", tmp_path, "--by", tmp_path, "--hours", 1, "train")
    assert done.returncode == 2
    assert "training needs all" in done.stderr
