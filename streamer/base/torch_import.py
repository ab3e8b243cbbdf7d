"""Imports torch without the functions that only its compilers need. That takes three fifths of the processor time.

torch registers a Python function for each of thousands of operations, which says what shape the result would have. Only
torch's compilers (torch.compile, torch.export) need these functions. So the module that registers them is left out, and
imported only right before a compiler. That also saves 19 MB.
"""

from __future__ import annotations

import gc
import importlib
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

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
