"""The script that builds the lexicon."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """One sentence names the script that comes first."""
    done = run("train/build_lexicon.py", "--bundle", tmp_path)
    assert done.returncode == 1
    assert "run scripts/train/build_language_model.py first" in done.stderr
    assert done.stderr.count("\n") == 1
