"""The script that measures our service beside the server of sherpa-onnx."""

from __future__ import annotations

from pathlib import Path

from tests.scripts.program import run


def test_without_the_other_server(tmp_path: Path) -> None:
    """If the other server is not installed, one sentence says so."""
    done = run("measure/beside_sherpa.py", tmp_path, "--sherpa", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("beside_sherpa: there is no ")
    assert done.stderr.count("\n") == 1
