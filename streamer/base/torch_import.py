"""Imports torch without the functions that only its compilers need. That takes three fifths of the processor time.

torch registers a Python function for each of thousands of operations, which says what shape the result would have. Only
torch's compilers (torch.compile, torch.export) need these functions. So the module that registers them is left out, and
imported only right before a compiler. That also saves 19 MB.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from streamer.base.package import install_command

SHAPES: Final = "torch._meta_registrations"
COMPILER: Final = "torch._dynamo"
"""The module that torch.compile, torch.export and optimizers import first."""


def import_torch() -> None:
    """Import torch, if this process has not done so. Call it before any `import torch`."""
    if "torch" in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()  # hundreds of thousands of objects are made, and none of them becomes garbage
    sys.modules[SHAPES] = ModuleType(SHAPES)
    try:
        import torch
    finally:
        del sys.modules[SHAPES]
        if collects:
            gc.enable()
    vars(torch).pop(SHAPES.rpartition(".")[2], None)  # so that a later import really imports the module
    sys.meta_path.insert(0, _ShapesFirst())
    gc.freeze()  # torch's objects live until the process ends, so no garbage collection needs to examine them


class _ShapesFirst(MetaPathFinder):
    """Finds no module itself. It imports the functions for shapes right before the compiler, which expects them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == COMPILER:
            sys.meta_path.remove(self)
            importlib.import_module(SHAPES)


# Decides where a recogniser computes. A CPU needs no torch, so torch is imported only if there is a GPU.

CPU: Final = "cpu"
_DEVICES: Final = Path("/dev")
_GPU_FILES: Final = ("nvidia[0-9]*", "dxg", "kfd")
"""The files of NVIDIA's driver, of GPUs in the Linux of Windows, and of AMD's driver."""


def gpu_is_there() -> bool:
    """Return whether this machine, or this container, has a GPU. Whether torch can use it is another question."""
    return any(any(_DEVICES.glob(name)) for name in _GPU_FILES)


def reason_not_on_gpu() -> str | None:
    """Return the reason why torch cannot compute on a GPU; None if it can."""
    if importlib.util.find_spec("torch") is None:
        return f"torch is not installed ({install_command('gpu')})"
    import_torch()
    import torch

    return None if torch.cuda.is_available() else "torch cannot use it"


def best_device() -> str:
    """Return the name of the device in torch on which this machine should compute: its first GPU, or the CPU."""
    return "cuda:0" if gpu_is_there() and reason_not_on_gpu() is None else CPU
