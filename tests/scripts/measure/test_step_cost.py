"""The script that measures what a step costs, by its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.program import run, run_here

SHORT = ("--streams", "2", "--steps", "320", "--seconds", "2", "--rounds", "1")


def cells(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_parts_are_the_whole() -> None:
    """Each part has its own time, their sum is the whole, and the words of a step are some of them."""
    done = run_here("measure/step_cost.py", *SHORT)
    assert done.returncode == 0, done.stderr
    names, _, values = map(cells, done.stdout.splitlines()[:3])
    figures = dict(zip(names[2:], map(float, values[2:]), strict=True))
    whole, words = figures.pop("all"), figures.pop("words, a step")
    assert sum(figures.values()) == pytest.approx(whole, abs=0.1)
    assert figures["encoder"] > 0
    assert figures["search loops"] > 0
    assert 0 < words < 0.32 * whole
    assert len([line for line in done.stdout.splitlines() if line.startswith(("| 0 ms", "| 300 ms", "| 600 ms"))]) == 3


def test_two_checkouts_take_turns() -> None:
    """Each checkout has a table of its own."""
    done = run("measure/step_cost.py", *SHORT, "--beside", Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    assert [cells(line)[1] for line in done.stdout.splitlines()] == ["here", "---", "320 ms", "beside", "---", "320 ms"]


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """One sentence names what the folder lacks."""
    done = run_here("measure/step_cost.py", "--bundle", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"step_cost: {tmp_path / 'model.json'} is missing")
