"""The scripts that compare public models with sherpa-onnx."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.program import run_here


@pytest.mark.parametrize("script", ["public_models.py", "public_model_cost.py"])
def test_what_is_no_model(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence says why a folder cannot be used."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so that it is undone: the script sets it for its own process
    done = run_here(f"measure/{script}", tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path} is not the folder of a public model: it has no file *.onnx.\n"


def test_a_comparison_that_cannot_go_on() -> None:
    """A comparison goes on only after whole groups of streams."""
    done = run_here("measure/public_models.py", "--done", "60")
    assert done.returncode == 2
    assert "--done must be a multiple of 50" in done.stderr
