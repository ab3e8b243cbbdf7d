"""The script that measures what the bridge costs."""

from __future__ import annotations

from tests.project import ROOT
from tests.scripts.program import run


def test_what_is_compared_in_turn() -> None:
    """Each number of sessions has a row for each tree and for workers, with costs and delays; at rest costs alone."""
    arguments = ["--sessions", "0,2", "--seconds", 1, "--rounds", 1, "--chunk", 40, "--beside", ROOT, "--workers", 2]
    done = run("measure/bridge_cost.py", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    variants = ["beside", "this", "2 workers"]
    assert [row[:2] for row in rows[2:]] == [[number, name] for number in ("at rest", "2") for name in variants]
    assert [row[6:] for row in rows[2:5]] == [["-"] * 4] * 3
    for row in rows[5:]:
        bridge, parent, triton, model = (float(cell.split(" ")[0]) for cell in row[2:6])
        assert min(bridge, triton, model) > 0
        assert (0 < parent < bridge) is (row[1] == "2 workers")
        assert all(0 < float(cell) < 60 for cell in row[6:])


def test_a_service_that_does_not_start() -> None:
    """The script says why the service did not start."""
    done = run("measure/bridge_cost.py", "--sessions", "1", "--serve", "--sessions none")
    assert done.returncode == 1
    assert "the service did not start" in done.stderr
