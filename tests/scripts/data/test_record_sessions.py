"""The script that records sessions."""

from __future__ import annotations

from pathlib import Path

from tests.project import ROOT
from tests.scripts.program import run_here

KEPT = ROOT / "tests" / "wire" / "recorded_sessions"
EXACT = ("exact_words", "exact_channels", "exact_heads", "exact_resume")


# Finals of a session with a second pass say what has read them since these sessions were recorded.
READ_BY = b',"read_by":"second_pass"'


def test_the_exact_model_still_sends_what_was_recorded(tmp_path: Path) -> None:
    """Recorded again, the sessions of the exact model are the files that are kept, byte for byte, and `read_by`."""
    done = run_here("data/record_sessions.py", "--to", tmp_path, "--only", *EXACT)
    assert done.returncode == 0, done.stderr
    for name in EXACT:
        again = (tmp_path / f"{name}.json").read_bytes().replace(READ_BY, b"")
        assert again == (KEPT / f"{name}.json").read_bytes()
