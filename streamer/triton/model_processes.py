"""Finds the processes of a Triton's models, one for each instance, and the memory that they hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")


def memory_of(server: int, model: str) -> int | None:
    """Return the bytes that this model's processes hold; None if it has none. `server`: tritonserver's process number.

    Libraries count for each process, although processes may share them.
    """
    sizes = [_resident(process) for process in _children(server) if _computes(process, model)]
    return sum(sizes) or None


def _children(process: int) -> Iterator[int]:
    for path in (PROCESSES / str(process) / "task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in map(int, path.read_text(encoding="ascii").split()):
                yield child
                yield from _children(child)


def _computes(process: int, model: str) -> bool:
    """Return whether a process belongs to the model. Its command then names model.py in the folder of a version."""
    try:
        command = (PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")
    except OSError:  # the process has ended
        return False
    return any(Path(os.fsdecode(part)).parts[-3:-2] == (model,) for part in command)


def _resident(process: int) -> int:
    try:
        fields = (PROCESSES / str(process) / "statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
