"""The packages without which no model can be loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.project import ROOT


@pytest.mark.parametrize("package", ["kaldi_native_fbank", "numba", "onnxruntime", "safetensors"])
def test_a_missing_package_is_told_in_a_sentence(package: str) -> None:
    """The load fails with the name of the package and with the command that installs it."""
    program = f"import sys; sys.modules[{package!r}] = None; import streamer.engine.adapters.instance"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    last = done.stderr.splitlines()[-1]
    assert last == f"ImportError: the recogniser needs {package}: pip install 'streamer-asr[engine]'"
