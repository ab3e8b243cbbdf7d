"""The script that measures what a pipeline brings beside a GPU, without one."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_networks_that_compute_and_networks_that_take_a_time() -> None:
    """Each kind of networks has a row, and all rows have the same words."""
    done = run("measure/pipeline.py", "--streams", 4, "--steps", 6, "--rounds", 1, "--network-ms", 2)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["computed", "2 ms"]
    assert all(float(cell) > 0 for row in rows for cell in row[1:])


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """One sentence names what the folder lacks."""
    done = run("measure/pipeline.py", "--bundle", tmp_path, "--rounds", 1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"pipeline: {tmp_path / 'model.json'} is missing")
