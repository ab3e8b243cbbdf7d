"""Imports torch in three fifths of the processor time, in a process of ours that computes with it.

torch registers a Python function for each of thousands of operations, which says what shape the result would have. Only
torch's compilers (torch.compile, torch.export) need these functions. So the module that registers them is left out, and
imported only right before a compiler. That also spares 19 MB.
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
"""What torch.compile and torch.export import first. So do optimizers."""


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
    vars(torch).pop(SHAPES.rpartition(".")[2], None)  # so that another import of it is a real one
    sys.meta_path.insert(0, _ShapesFirst())
    gc.freeze()  # they stay until the end: no collection looks at them, not even the last one when the process ends


class _ShapesFirst(MetaPathFinder):
    """Finds nothing. It sees that the compiler is about to be imported, which expects the shapes."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == COMPILER:
            sys.meta_path.remove(self)
            importlib.import_module(SHAPES)
