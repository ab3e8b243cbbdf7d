"""The script that measures the Tab key with the real command."""

from __future__ import annotations

from tests.scripts.program import run


def test_answers_are_timed() -> None:
    """Each command line takes some time, and some processor time."""
    done = run("measure/tab_key.py", "--times", 1)
    rows = [line.split("|")[2:5] for line in done.stdout.splitlines()[2:]]
    assert len(rows) == 5
    assert all(0 < int(cell) < 10_000 for row in rows for cell in row)
