"""CPU time of a process and of all that it started, as Linux tells it."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_below(process: int) -> float | None:
    """CPU seconds so far of the living descendants of a process, without itself; None where it cannot be known."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    try:
        tick = os.sysconf("SC_CLK_TCK")
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                # The command's name may hold spaces and brackets: fields can be counted after the last of them.
                fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            parents[int(folder.name)] = int(fields[1])
            # Children that it has waited for count with it.
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
