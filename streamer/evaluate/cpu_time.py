"""Measures the CPU time of the descendants of a process."""

from __future__ import annotations

from streamer.machine.processes import descendants, find_process


def descendants_cpu_s(pid: int) -> float | None:
    """Return the CPU seconds of the living descendants of a process, without itself. None if it does not exist."""
    if find_process(pid) is None:
        return None
    return sum(each.cpu_s + each.children_cpu_s for each in descendants(pid))
