"""The script that tunes the search; other scripts that search cached emissions have the same command line."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run_here


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """Missing data gives one sentence, after the name of the script."""
    done = run_here("train/tune_search.py", "--work", tmp_path, "--cache", tmp_path, "--bundle", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"tune_search: {tmp_path}")
    assert done.stderr.count("\n") == 1
