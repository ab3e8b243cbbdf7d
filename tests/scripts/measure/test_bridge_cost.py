"""The script that measures what the bridge costs."""

from __future__ import annotations

from tests.project import ROOT
from tests.scripts.program import run


def test_two_trees_in_turn() -> None:
    """Each number of sessions has a row for each tree, with costs and delays; at rest there are costs alone."""
    arguments = ["--sessions", "0,2", "--seconds", 1, "--rounds", 1, "--chunk", 40, "--beside", ROOT]
    done = run("measure/bridge_cost.py", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    assert [row[:2] for row in rows[2:]] == [["at rest", "beside"], ["at rest", "this"], ["2", "beside"], ["2", "this"]]
    assert [row[5:] for row in rows[2:4]] == [["-"] * 4] * 2
    for row in rows[4:]:
        bridge, triton, model = (float(cell.split(" ")[0]) for cell in row[2:5])
        assert min(bridge, triton, model) > 0
        assert all(0 < float(cell) < 60 for cell in row[5:])


def test_a_service_that_does_not_start() -> None:
    """The script says why the service did not start."""
    done = run("measure/bridge_cost.py", "--sessions", "1", "--serve", "--sessions none")
    assert done.returncode == 1
    assert "the service did not start" in done.stderr
