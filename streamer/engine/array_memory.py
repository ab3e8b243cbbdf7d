"""Arrays that lie outside the heap: mapped from a file, which all processes share, or with room that costs nothing.

The heap is no place for either: it has pages that were used before, so room that nobody uses would take memory.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
_KINDS: Final = {"U8": "u1", "I8": "i1", "I32": "<i4", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_LENGTH: Final = 8  # the bytes of the length of the header at the start of a file
_MAP_FIXED: Final = 0x10  # of Linux; the module mmap does not have it


@dataclass(frozen=True)
class FilePart:
    """The place of an array in a file."""

    path: Path
    begin: int
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return math.prod(self.shape) * self.kind.itemsize


@dataclass(frozen=True)
class MappedFile:
    """A file that a library has mapped for the object that refers to this one, so that its memory can be counted."""

    path: Path


def parts_of(path: Path | str) -> dict[str, FilePart]:
    """Return the places of the arrays in a safetensors file. ValueError if one has numbers of a kind without a name."""
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    parts: dict[str, FilePart] = {}
    for name, part in header.items():
        if part["dtype"] not in _KINDS:
            raise ValueError(f"{name} has numbers of the kind {part['dtype']}")
        begin = _LENGTH + length + part["data_offsets"][0]
        parts[name] = FilePart(Path(path), begin, np.dtype(_KINDS[part["dtype"]]), tuple(part["shape"]))
    return parts


def mapped_arrays(path: Path | str) -> Arrays:
    """Return the arrays of a safetensors file by name, memory-mapped: `safe_open` would copy them for numpy.

    They can be written like other arrays, which the compiled loops need, but no change gets into the file.
    """
    with Path(path).open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays: Arrays = {}
    for name, part in parts_of(path).items():
        flat: NDArray[Any] = np.frombuffer(content, part.kind, math.prod(part.shape), part.begin)
        arrays[name] = flat.reshape(part.shape)
    return arrays


def array_with_room(kind: np.dtype[Any], shape: tuple[int, ...], first: FilePart | None = None) -> NDArray[Any]:
    """Return an array that takes memory only where it is written. It begins with this part of a file, mapped.

    What follows that part is undefined until it is written.
    """
    skipped = first.begin % mmap.PAGESIZE if first else 0
    count = math.prod(shape)
    area = mmap.mmap(-1, skipped + max(1, count * kind.itemsize), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    flat: NDArray[Any] = np.frombuffer(area, kind, count, skipped)
    if first and first.size:
        _map_over(flat.ctypes.data - skipped, first, skipped)
    return flat.reshape(shape)


def _map_over(address: int, part: FilePart, skipped: int) -> None:
    """Map a part of a file at this address, in place of memory that is mapped there. The file is not changed."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED
    with part.path.open("rb") as file:
        size, begin = skipped + part.size, part.begin - skipped
        found = library.mmap(address, size, protection, flags, file.fileno(), begin)
    if found != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(part.path))
