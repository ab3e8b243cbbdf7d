"""Counts the bytes that an object and everything below it take: tensors exactly, other objects as Python counts them.

Recordings in `bytearray` are not counted: how much of them a stream keeps is bounded elsewhere.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType

# What is found below these belongs to the program, not to the object that refers to it.
_PROGRAM = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


@dataclass(frozen=True)
class Footprint:
    """Bytes of memory."""

    own: int = 0  # of the process alone
    mapped: int = 0  # of files that all processes share
    device: int = 0  # of a GPU

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(self.own + other.own, self.mapped + other.mapped, self.device + other.device)

    def __sub__(self, other: Footprint) -> Footprint:
        return Footprint(self.own - other.own, self.mapped - other.mapped, self.device - other.device)

    def __mul__(self, number: int) -> Footprint:
        return Footprint(self.own * number, self.mapped * number, self.device * number)

    def __floordiv__(self, number: int) -> Footprint:
        return Footprint(self.own // number, self.mapped // number, self.device // number)


def footprint(*roots: object) -> Footprint:
    """Count everything that can be reached from these objects, each part once."""
    own = mapped = device = 0
    files = _mapped_files()
    storages: set[int] = set()
    # Without torch there are no tensors, and it is not loaded for that: its libraries would be counted, too.
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    for found in reachable(*roots):
        own += sys.getsizeof(found)
        if not isinstance(found, tensor):
            continue
        storage = found.untyped_storage()
        if storage.data_ptr() in storages:
            continue
        storages.add(storage.data_ptr())
        if found.device.type != "cpu":
            device += storage.nbytes()
        elif any(start <= storage.data_ptr() < end for start, end in files):
            mapped += storage.nbytes()
        else:
            own += storage.nbytes()
    return Footprint(own, mapped, device)


def reachable(*roots: object) -> Iterator[object]:
    """Yield these objects and everything to which they refer, without code and recordings."""
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        found = waiting.pop()
        if id(found) not in seen and not isinstance(found, (bytearray, *_PROGRAM)):
            seen.add(id(found))
            waiting += gc.get_referents(found)
            yield found


def _mapped_files() -> list[tuple[int, int]]:
    """The addresses at which files of models are mapped."""
    ranges = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        address, _, _, _, inode, *path = line.split(maxsplit=5)
        if inode != "0" and path:
            start, end = address.split("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges
