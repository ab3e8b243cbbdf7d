"""The script that measures speech events."""

from __future__ import annotations

from pathlib import Path

from tests.project import BUNDLE
from tests.scripts.program import run


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """One sentence names the script that comes first."""
    done = run("measure/activity.py", "--work", tmp_path, "--bundle", BUNDLE)
    assert done.returncode == 1
    assert "run scripts/data/prepare_speech.py" in done.stderr
    assert done.stderr.count("\n") == 1
