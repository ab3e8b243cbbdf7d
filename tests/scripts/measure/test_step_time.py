"""The script that measures how long steps take."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run, run_here


def test_each_number_of_streams_has_its_time() -> None:
    """There is a line for each number, and the longest step is no shorter than the median."""
    done = run("measure/step_time.py", "--streams", "1,3", "--steps", 2, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    rows = [[int(cell) for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == [1, 3]
    assert all(0 < usual <= longest for _, usual, longest in rows)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """One sentence names what the folder lacks."""
    done = run_here("measure/step_time.py", "--bundle", tmp_path, "--device", "cpu")
    assert done.returncode == 1
    assert done.stderr.startswith(f"step_time: {tmp_path / 'model.json'} is missing")
