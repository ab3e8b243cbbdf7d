"""The scripts that search kept emissions: what they say when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.program import run


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("train/calibrate.py", []),
        ("train/tune_search.py", []),
        ("measure/hotwords.py", []),
        ("measure/compare_search.py", ["--arpa", "missing.arpa"]),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, script: str, arguments: list[str]) -> None:
    """One sentence, behind the name of the script."""
    done = run(script, "--work", tmp_path, "--cache", tmp_path, "--bundle", tmp_path, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{Path(script).stem}: {arguments[-1] if arguments else tmp_path}")
    assert done.stderr.count("\n") == 1
