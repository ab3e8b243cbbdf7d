"""Finding the server of the wheel: what is missing is said in one sentence."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.triton import TritonError, installation
from streamer.triton.installation import find_tritonserver


def test_the_parts_are_found_without_importing_the_wheel() -> None:
    """Every part exists, and pytriton's own package stays unloaded."""
    found = find_tritonserver()
    assert all(path.exists() for path in vars(found).values())
    assert "pytriton" not in sys.modules


def test_a_missing_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel the message says what to install."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TritonError, match=r"pip install 'streamer\[embedded\]'"):
        find_tritonserver()


def test_a_python_that_the_wheel_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the versions that would do."""
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    with pytest.raises(TritonError, match=r"cannot run models in Python 3\.99, only in .*3\.10, 3\.11, 3\.12"):
        find_tritonserver()


def test_a_python_without_its_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message names the missing library and the Debian package that has it."""
    found = find_tritonserver()
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    with pytest.raises(TritonError, match=r"needs libpython3\.99\.so\.1\.0.* apt install libpython3\.99"):
        found.environment(tmp_path)


def test_what_the_user_has_set_comes_after_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Search paths keep their entries, made absolute; a chosen number of threads stays."""
    monkeypatch.setenv("PYTHONPATH", f"mine{os.pathsep}/theirs")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    variables = find_tritonserver().environment(tmp_path)
    package, *others = variables["PYTHONPATH"].split(os.pathsep)
    assert (Path(package) / "streamer" / "triton").is_dir()
    assert others == [str(Path.cwd() / "mine"), "/theirs"]
    assert variables["OMP_NUM_THREADS"] == "3"
    assert variables["MKL_NUM_THREADS"] == "1"


def test_python3_of_the_path_is_the_running_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the running Python has another name and stands beside another python3."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "python3").symlink_to("/bin/false")
    (tmp_path / "other" / "python-mine").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "other" / "python-mine"))
    variables = find_tritonserver().environment(tmp_path)
    lines = "import sys; print(sys.base_prefix)"
    answer = subprocess.run(["python3", "-c", lines], env=variables, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == sys.base_prefix
