"""The script that tunes the search; its command line is that of all scripts that search kept emissions."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """One sentence, behind the name of the script."""
    done = run("train/tune_search.py", "--work", tmp_path, "--cache", tmp_path, "--bundle", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tune_search: {tmp_path}")
    assert done.stderr.count("\n") == 1
