"""Counts the bytes of an object and all objects that it refers to: arrays exactly, others as Python counts them.

Audio in `bytearray` is not counted, because its size depends on the length of segments.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamer.base.memory_report import Device, Sizes
from streamer.engine.array_memory import MappedFile

if TYPE_CHECKING:
    from torch import Tensor

# Objects that these refer to belong to the program, and not to the object that is measured.
_PROGRAM = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


@dataclass(frozen=True)
class Footprint:
    """Bytes of memory."""

    own: int = 0  # in the memory of the process alone
    mapped: int = 0  # in files that all processes share
    device: int = 0  # in the memory of a GPU

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(self.own + other.own, self.mapped + other.mapped, self.device + other.device)

    def __sub__(self, other: Footprint) -> Footprint:
        return Footprint(self.own - other.own, self.mapped - other.mapped, self.device - other.device)

    def __mul__(self, number: int) -> Footprint:
        return Footprint(self.own * number, self.mapped * number, self.device * number)

    def __floordiv__(self, number: int) -> Footprint:
        return Footprint(self.own // number, self.mapped // number, self.device // number)


def footprint(*roots: object) -> Footprint:
    """Count all objects that can be reached from these, each only once."""
    own = mapped = device = 0
    files = _mapped_files()
    places: set[int] = set()
    paths: set[str] = set()
    # If torch is not loaded, there are no tensors. It is not imported here, because its libraries would count, too.
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    for item in reachable(*roots):
        own += sys.getsizeof(item)
        if isinstance(item, np.ndarray):
            own -= item.nbytes if item.flags.owndata else 0  # this is a part of its size in Python
            storage = _of_array(item)
        elif isinstance(item, tensor):
            storage = _of_tensor(item)
        else:
            if isinstance(item, MappedFile):
                paths.add(str(item.path.resolve()))
            continue
        if storage.place in places:
            continue
        places.add(storage.place)
        if storage.on_device:
            device += storage.size
        else:
            in_files = sum(storage.overlap(begin, end) for begin, end, _ in files)
            mapped += in_files
            own += storage.size - in_files
    mapped += sum(end - begin for begin, end, path in files if path in paths)
    return Footprint(own, mapped, device)


@dataclass(frozen=True)
class _Storage:
    """The numbers of an array, which other arrays may share."""

    place: int  # its address
    size: int
    on_device: bool = False

    def overlap(self, begin: int, end: int) -> int:
        """Return how many bytes lie between these addresses. A table may begin in a file and go on in the process."""
        return max(0, min(self.place + self.size, end) - max(self.place, begin))


def _of_array(array: NDArray[Any]) -> _Storage:
    """Return the storage of an array: if it is a part of another one, that of the whole."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return _Storage(array.ctypes.data, array.nbytes)


def _of_tensor(tensor: Tensor) -> _Storage:
    storage = tensor.untyped_storage()
    return _Storage(storage.data_ptr(), storage.nbytes(), tensor.device.type != "cpu")


def reachable(*roots: object) -> Iterator[object]:
    """Yield these objects and all objects that they refer to, without code and audio."""
    visited: set[int] = set()
    waiting = list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) not in visited and not isinstance(item, (bytearray, *_PROGRAM)):
            visited.add(id(item))
            waiting += gc.get_referents(item)
            yield item


def _mapped_files() -> list[tuple[int, int, str]]:
    """Return the ranges of addresses at which files are mapped, and the path of each file."""
    ranges = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        address, _, _, _, inode, *path = line.split(maxsplit=5)
        if inode != "0" and path:
            start, end = address.split("-")
            ranges.append((int(start, 16), int(end, 16), path[0]))
    return ranges


# The memory of the present process, and of its GPU.


class GpuMemory:
    """The memory of a GPU. Without a GPU, all sizes are 0."""

    def __init__(self, device: str) -> None:
        self.name, self.total, self.context, self._device = "", None, 0, device
        if device != "cpu":
            import torch  # here, because a CPU does not need it

            free, self.total = torch.cuda.mem_get_info(device)  # this call prepares the GPU for the process
            self.name, self.context = torch.cuda.get_device_name(device), self.total - free

    @property
    def used(self) -> int:
        """The memory that torch has reserved for tensors, in use or not."""
        if self.total is None:
            return 0
        import torch

        return torch.cuda.memory_reserved(self._device)

    @property
    def described(self) -> Device:
        """The description of the device for a report."""
        return {"kind": "cpu"} if self.total is None else {"kind": "gpu", "name": self.name, "memory": self.total}


def one_thread() -> None:
    """Let torch compute with one thread, as in the process of an instance, if it is imported."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


def resident() -> dict[str, int]:
    """Return the memory of this process. RssAnon is its own, RssFile is mapped from files that processes share."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {name: 1024 * int(size) for name, size in re.findall(r"^(Rss\w+):\s*(\d+) kB$", status, re.MULTILINE)}


def sizes(main: int, gpu: int = 0) -> Sizes:
    """Return sizes in main memory and on the GPU for a report."""
    return {"main": main, "gpu": gpu}
