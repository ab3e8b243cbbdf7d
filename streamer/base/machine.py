"""The machine: its processes, memory and processors, its folder for temporary files, and the user's home folder."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSES = Path("/proc")


class Process(NamedTuple):
    """The state of a process at one moment."""

    pid: int
    parent: int
    session: int
    cpu_s: float
    """Processor time of the process itself."""
    children_cpu_s: float
    """Processor time of its children that have ended, once it has waited for them."""
    started_s: float
    """When it started, in seconds since the machine started."""


def processes() -> Iterator[Process]:
    """Yield all processes that can be seen."""
    for folder in _PROCESSES.glob("[0-9]*"):
        if process := find_process(folder.name):
            yield process


def find_process(pid: int | str = "self") -> Process | None:
    """Return the process with this id, by default this one. None if there is none."""
    try:
        # The name of the program may contain spaces and brackets, so count fields after the last bracket.
        status = (_PROCESSES / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    number, _, _ = status.partition(" ")
    _, parent, _, session, *fields = status.rpartition(")")[2].split()
    own, system, children, children_system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[7:11])
    started = int(fields[15]) / os.sysconf("SC_CLK_TCK")
    return Process(int(number), int(parent), int(session), own + system, children + children_system, started)


def descendants(pid: int) -> list[Process]:
    """Return the processes that this process started, the processes that those started, and so on."""
    children: dict[int, list[Process]] = {}
    for each in processes():
        children.setdefault(each.parent, []).append(each)
    offspring: list[Process] = []
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        offspring += new
        waiting += [each.pid for each in new]
    return offspring


def command(pid: int) -> list[str]:
    """Return the command line of this process; empty when it has ended."""
    try:
        return (_PROCESSES / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def give_back_freed_memory() -> None:
    """Return freed memory to the system. Otherwise glibc keeps most of the memory of large objects that are gone."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # only glibc has it
        trim(0)


# The folder for temporary files, and what to do when it is full; the home folder.

LEAST: Final = 1 << 20  # bytes; the folder of a Triton takes less
REMEDY: Final = "free some space there, or name another folder with TMPDIR"
# The home folder of users without one: those of a container, whose number has no name and for whom HOME is not set.
NO_HOME: Final = Path("/nonexistent")


def temporary_folder() -> Path:
    """Return the folder for temporary files. OSError with the remedy in its message if there is no space.

    If no folder can be used, Python falls back to the current folder, which is the wrong place for temporary files.
    """
    preferred = preferred_folder()
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise no_space_error(preferred) from None
    if (folder == Path.cwd() and folder != preferred) or free_bytes(folder) < LEAST:
        raise no_space_error(preferred)
    return folder


def preferred_folder() -> Path:
    """Return the folder that TMPDIR names, or that of the system."""
    variable_value = next(filter(None, (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))), None)
    return Path(variable_value or ("/tmp" if os.name == "posix" else home_folder() / "AppData" / "Local" / "Temp"))


def home_folder() -> Path:
    """Return the home folder of this user, or NO_HOME, where nothing exists and nothing can be written."""
    try:
        return Path.home()
    except RuntimeError:
        return NO_HOME


def user_folder(variable: str, usual: str) -> Path:
    """Return the folder of this user that a variable of XDG names, or the usual one in the home folder."""
    folder = Path(os.environ.get(variable) or "")
    # The specification of XDG says that a relative path must be ignored.
    return folder if folder.is_absolute() else home_folder() / usual


def free_bytes(folder: Path) -> int:
    """Return how many bytes can be written there; 0 if nothing can."""
    try:
        return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0
    except OSError:
        return 0


def no_space_error(folder: Path) -> OSError:
    """Return the error for a folder in which there is no space."""
    reason = "is full" if folder.is_dir() and os.access(folder, os.W_OK) else "cannot be written"
    return OSError(errno.ENOSPC, f"the temporary folder {folder} {reason}: {REMEDY}")


# Finds the memory and the processors that programs may use here: those of the machine, or less in a container.

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
