"""Finds the memory and the processors that programs may use here: those of the machine, or less in a container."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")


@dataclass(frozen=True)
class MachineMemory:
    """The size of the memory that programs may use."""

    size: int  # bytes
    limited: bool = False  # by a control group, as in a container; otherwise it is all memory of the machine


def machine_memory(root: Path = ROOT) -> MachineMemory:
    """Find out how much memory the machine has, or the control group of this process if it may use less."""
    whole = _memory_of_machine(root)
    limits = [
        int(text)
        for folder in _control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(folder / name)).isdecimal()
    ]
    least = min(limits, default=whole)
    return MachineMemory(least, limited=True) if least < whole else MachineMemory(whole)


def processors(root: Path = ROOT) -> int:
    """Find out how many processors this process may use. A part of a processor counts as one."""
    return max(1, math.ceil(processor_time(root)))


def processor_time(root: Path = ROOT) -> float:
    """Find out how many processors this process may use, where a quota may be a part of one."""
    time = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    for folder in _control_groups(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:
            quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal():
            time = min(time, int(quota) / int(period))
    return time


def _memory_of_machine(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", _read(root / "proc/meminfo"), re.MULTILINE)
    if match:
        return 1024 * int(match[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of the control group of this process, and the folders above it: the limits of all of them count.

    Inside a container the group may have another path than /proc says. Then only the folders above it exist.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        if controllers and controller in controllers.split(","):
            top /= controller
        elif controllers or number != "0":
            continue
        folder = top / path.lstrip("/")
        while folder != top and top in folder.parents:
            yield folder
            folder = folder.parent
        yield top


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
