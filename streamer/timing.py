"""Where the time goes between the typed command and the last word."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Timing:
    """Named moments, in seconds since the process began."""

    def __init__(self) -> None:
        self._zero = time.monotonic() - process_age()
        self.moments: list[tuple[str, float]] = []

    def mark(self, name: str) -> None:
        """Notes that this has just happened; only the first time of a name counts."""
        if all(name != earlier for earlier, _ in self.moments):
            self.moments.append((name, time.monotonic() - self._zero))

    def report(self) -> str:
        """A table: seconds since the beginning, seconds since the line above, what had happened by then."""
        lines = ["  seconds     step"]
        before = 0.0
        for name, at in self.moments:
            lines.append(f"  {at:7.2f}  {at - before:+7.2f}  {name}")
            before = at
        return "\n".join(lines)


def process_age() -> float:
    """Seconds since this process was started, so that the interpreter's own start counts; 0 if unknown."""
    try:
        # The command's name may hold spaces and brackets: fields can be counted after the last of them.
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
