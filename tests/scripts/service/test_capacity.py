"""The script that measures the capacity of a machine."""

from __future__ import annotations

from tests.scripts.program import run


def test_levels_are_numbers() -> None:
    """Levels that are not numbers are refused before anything is started."""
    done = run("service/capacity.py", "--levels", "much")
    assert done.returncode == 2
    assert "argument --levels: invalid" in done.stderr
