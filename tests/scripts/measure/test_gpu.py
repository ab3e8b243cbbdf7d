"""The script that measures what a GPU makes faster. Here it measures a CPU, in the same way."""

from __future__ import annotations

import json
from pathlib import Path

from tests.scripts.program import run, run_here


def test_all_parts_on_a_cpu(tmp_path: Path) -> None:
    """Each part writes its figures; all sequences of the same audio have the same text, and no words differ."""
    done = run("measure/gpu.py", "--quick", "--device", "cpu", "--to", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert found.keys() == {"machine", "words", "steps", "one", "in_turn", "four", "service"}
    assert not [report["problem"] for report in found.values() if "problem" in report]
    assert found["machine"]["packages"]["torch"]
    assert (found["words"]["recordings"], found["words"]["different"]) == (4, 0)
    assert found["words"]["words"] > 10
    for row in found["steps"]["rows"]:
        assert row["parts_ms"]["network"] > 0
        assert sum(row["parts_ms"].values()) <= 1.5 * row["step_ms"]
    for name, instances in (("one", 1), ("in_turn", 1), ("four", 4)):
        assert found[name]["instances"] == instances
        for level in found[name]["levels"]:
            assert level["failed"] == 0
            assert level["ended"] == level["most_with_one_text"] == level["sequences"]
            assert level["step_ms"]["p50"] > 0
    assert [level["sessions"] for level in found["service"]["levels"]] == [1, 2]


def test_a_part_that_fails(tmp_path: Path) -> None:
    """One that cannot be measured says why, in its file, too; the exit status is 1."""
    done = run_here("measure/gpu.py", "--quick", "--device", "cuda:77", "--part", "steps", "--to", tmp_path)
    assert done.returncode == 1
    problem = json.loads((tmp_path / "steps.json").read_text())["problem"]
    assert problem.startswith("it ended with 1: ")
    assert problem in done.stdout
