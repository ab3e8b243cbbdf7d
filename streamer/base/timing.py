"""Measures where the time goes between the typed command and the last word."""

from __future__ import annotations

import time

from streamer.base.machine import find_process


class Timing:
    """Named moments of a command, in seconds since its process started."""

    def __init__(self) -> None:
        self._zero = time.monotonic() - process_age()
        self.moments: list[tuple[str, float]] = []
        self.notes: list[str] = []
        """What other processes say about their time."""

    def mark(self, name: str) -> None:
        """Record that the moment with this name is now. Later calls with the same name change nothing."""
        if all(name != earlier for earlier, _ in self.moments):
            self.moments.append((name, time.monotonic() - self._zero))

    def report(self) -> str:
        """Return a table: seconds since the start, seconds since the line above, and what had happened by then.

        The notes stand below it.
        """
        lines = ["  seconds     step"]
        for (name, at), (_, taken) in zip(self.moments, self.parts(), strict=True):
            lines.append(f"  {at:7.2f}  {taken:+7.2f}  {name}")
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    def parts(self) -> list[tuple[str, float]]:
        """Return each moment with the seconds since the one before it."""
        times = [at for _, at in self.moments]
        return [(name, at - before) for (name, at), before in zip(self.moments, [0.0, *times], strict=False)]


def process_age() -> float:
    """Return the seconds since this process started, including the start of the interpreter. 0 if unknown."""
    this = find_process()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - this.started_s) if this else 0.0
