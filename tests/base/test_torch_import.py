"""torch without what only its compilers need."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, importlib.util, sys
from streamer.base.torch_import import COMPILER, SHAPES, import_torch

import_torch()
import torch

assert SHAPES not in sys.modules
assert gc.isenabled()
assert torch.ones(4).softmax(0).sum() == 1
assert importlib.util.find_spec(COMPILER)  # what an import of it does first
assert hasattr(torch._meta_registrations, "meta_index_Tensor")
"""


def test_the_compiler_of_torch_gets_its_shapes() -> None:
    """torch computes without the module for shapes, and code that imports its compiler gets that module, too."""
    pytest.importorskip("torch", reason="it imports torch: pip install 'streamer-asr[gpu]'")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
