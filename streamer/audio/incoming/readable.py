"""Waits for a pipe, so that reading it never blocks. Standard library only."""

from __future__ import annotations

import select
import sys


def is_readable(descriptor: int, patience_s: float) -> bool:
    """Whether data or the end can be read now, or within this time.

    Windows cannot wait for a pipe, so there the reader has to wait.
    """
    if sys.platform == "win32":
        return True
    if not hasattr(select, "poll"):  # Python leaves it out where the one of macOS does not work
        return bool(select.select([descriptor], [], [], patience_s)[0])
    poll = select.poll()  # select takes no descriptor above 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, patience_s) * 1000))


def read_as_it_is(descriptor: int) -> None:
    """Read the pipe as bytes. Windows would otherwise change the ends of lines."""
    if sys.platform == "win32":
        import msvcrt
        import os

        msvcrt.setmode(descriptor, os.O_BINARY)
