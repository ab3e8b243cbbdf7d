"""The script that measures the effect of costly sessions."""

from __future__ import annotations

from tests.scripts.program import run


def test_nobody_there_is_said() -> None:
    """If no service answers, one sentence says so."""
    done = run("service/costly_sessions.py", "--server", "ws://127.0.0.1:1/v1/stream")
    assert done.returncode == 1
    assert done.stderr.startswith("costly_sessions: ")
    assert done.stderr.count("\n") == 1
