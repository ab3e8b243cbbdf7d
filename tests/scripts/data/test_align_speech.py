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
