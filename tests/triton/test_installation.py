"""Finding the server of the wheel; one sentence says what is missing."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import streamer
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
    with pytest.raises(TritonError, match=r"pip install 'streamer-asr\[embedded\]'"):
        find_tritonserver()


def test_a_python_that_the_wheel_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the versions that would work."""
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
    """Search paths keep their entries, and a given number of threads stays."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = find_tritonserver()
    variables = found.environment(tmp_path)
    libraries = variables["LD_LIBRARY_PATH"].split(os.pathsep)
    assert libraries[0] == str(found.libraries)
    assert libraries[-1] == "/theirs"
    assert variables["OMP_NUM_THREADS"] == "3"
    assert variables["MKL_NUM_THREADS"] == "1"


def test_models_import_what_we_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """python3 of the path is this Python with our search paths, even in isolated mode as the backend runs it."""
    extra = tmp_path / "ex\u00e4tra"
    extra.mkdir()
    (extra / "only_here.py").touch()
    monkeypatch.syspath_prepend(extra)
    variables = find_tritonserver().environment(tmp_path)
    lines = "import only_here, numpy, streamer, sys; print(ascii([numpy.__file__, streamer.__file__, sys.version]))"
    command = ["python3", "-I", "-c", lines]
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert ast.literal_eval(answer.stdout) == [numpy.__file__, streamer.__file__, sys.version]
