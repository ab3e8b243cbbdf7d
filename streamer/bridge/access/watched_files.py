"""Files that are read again once they have changed, such as keys and certificates. Standard library only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_Content = TypeVar("_Content")
# A file may change twice within one tick of its clock. So a file that is newer than this is always read again.
_FRESH_NS = 2_000_000_000


class WatchedFiles(Generic[_Content]):
    """What some files contain."""

    def __init__(self, paths: Sequence[Path], read: Callable[[], _Content]) -> None:
        """`read` reads the files. What it raises goes to the caller, here and in `refresh`."""
        self._paths, self._read = paths, read
        self._seen, self._fresh = self._look()
        self.content = read()

    def refresh(self) -> bool:
        """Read the files again if they have changed, or may have. Returns whether they have.

        If they cannot be read, the content stays as it is, and the next call tries again. OSError if one is missing.
        """
        seen, fresh = self._look()
        changed = seen != self._seen
        if changed or self._fresh:
            self.content = self._read()
            # Only now: files that could not be read must not count as seen. But their signature is from before, so
            # that a change during the reading counts as one afterwards.
            self._seen, self._fresh = seen, fresh
        return changed

    def _look(self) -> tuple[list[tuple[int, int, int]], bool]:
        """Return what differs when the files have changed, and whether they may change without it."""
        now, found = time.time_ns(), [path.stat() for path in self._paths]
        seen = [(status.st_mtime_ns, status.st_size, status.st_ino) for status in found]
        return seen, any(now - status.st_mtime_ns < _FRESH_NS for status in found)
