"""The script that measures the cost of messages."""

from __future__ import annotations

from tests.scripts.program import run


def test_each_way_is_measured() -> None:
    """There is a line for each way, with its ratio to the first."""
    done = run("measure/messages.py", "--sequences", 2, "--seconds", 0.1, "--rounds", 1)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:5]]
    assert [row[1] for row in rows] == ["1", "2", "3"]
    assert rows[0][2] == "1.00 |"
