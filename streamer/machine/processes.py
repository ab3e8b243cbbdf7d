"""The processes of this machine, from /proc of Linux. Other systems have none of these files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_PROCESSES = Path("/proc")


class Process(NamedTuple):
    """A process, as it was when it was looked at."""

    pid: int
    parent: int
    session: int
    cpu_s: float
    """Processor time of the process itself."""
    children_cpu_s: float
    """Processor time of its children that have ended, if it has waited for them."""
    started_s: float
    """When it started, in seconds since the machine started."""


def processes() -> Iterator[Process]:
    """All processes that can be seen."""
    for folder in _PROCESSES.glob("[0-9]*"):
        if found := find_process(folder.name):
            yield found


def find_process(pid: int | str = "self") -> Process | None:
    """The process with this id, by default this one. None if there is none."""
    try:
        # The name of the program may contain spaces and brackets, so count fields after the last bracket.
        said = (_PROCESSES / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    number, _, _ = said.partition(" ")
    _, parent, _, session, *fields = said.rpartition(")")[2].split()
    own, system, children, children_system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[7:11])
    started = int(fields[15]) / os.sysconf("SC_CLK_TCK")
    return Process(int(number), int(parent), int(session), own + system, children + children_system, started)


def descendants(pid: int) -> list[Process]:
    """The processes that this process started, the processes that those started, and so on."""
    children: dict[int, list[Process]] = {}
    for each in processes():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found += new
        waiting += [each.pid for each in new]
    return found


def command(pid: int) -> list[str]:
    """The command line of this process; empty when it has ended."""
    try:
        return (_PROCESSES / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
