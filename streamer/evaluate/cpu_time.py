"""CPU time of the descendants of a process, from /proc of Linux."""

from __future__ import annotations

import os
from pathlib import Path


def descendants_cpu_s(process: int) -> float | None:
    """CPU seconds so far of the living descendants of a process, without itself. None if it is not known."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    try:
        tick = os.sysconf("SC_CLK_TCK")
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                # The name of the command may contain spaces and brackets, so count fields after the last bracket.
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # the process has just ended
            parents[int(folder.name)] = int(fields[1])
            # Includes children that it has waited for.
            used[int(folder.name)] = sum(map(int, fields[11:15])) / tick
    except (OSError, ValueError, AttributeError):
        return None
    if process not in parents:
        return None
    return sum(seconds for number, seconds in used.items() if _descends(number, process, parents))


def _descends(number: int, ancestor: int, parents: dict[int, int]) -> bool:
    while number in parents:
        number = parents[number]
        if number == ancestor:
            return True
    return False
