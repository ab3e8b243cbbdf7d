"""Memory that a process has freed, and that it can give back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back_freed_memory() -> None:
    """Give back what was freed. glibc keeps most of it otherwise, after large objects were made and dropped."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # it is glibc
        trim(0)
