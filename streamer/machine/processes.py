"""The processes of this machine, from /proc of Linux. Other systems have none of these files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
