"""The script that measures how many streams the threads of a process carry."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_threads_and_processes_have_rows() -> None:
    """Each number of threads has a row, and so have as many processes. The first row is the measure of the others."""
    done = run("measure/threads.py", "--streams", 8, "--steps", 2, "--rounds", 1)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["1 thread", "2 threads", "2 processes"]
    assert rows[0][2] == rows[0][4] == "1.00"
    assert all(float(cell) > 0 for row in rows for cell in row[1:])
    assert float(rows[1][5]) < float(rows[2][5])  # threads share their memory


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    """One sentence names what the folder lacks."""
    done = run("measure/threads.py", "--bundle", tmp_path, "--rounds", 1)
    assert done.returncode == 1
    assert done.stderr.startswith(f"threads: {tmp_path / 'model.json'} is missing")
