"""The script that records sessions."""

from __future__ import annotations

from pathlib import Path

from tests.project import ROOT
from tests.scripts.program import run_here

KEPT = ROOT / "tests" / "wire" / "recorded_sessions"
EXACT = ("exact_words", "exact_channels", "exact_heads", "exact_resume")


def test_the_exact_model_still_sends_what_was_recorded(tmp_path: Path) -> None:
    """Recorded again, the sessions of the exact model are the files that are kept, byte for byte."""
    done = run_here("data/record_sessions.py", "--to", tmp_path, "--only", *EXACT)
    assert done.returncode == 0, done.stderr
    for name in EXACT:
        assert (tmp_path / f"{name}.json").read_bytes() == (KEPT / f"{name}.json").read_bytes()
