"""Waits for a pipe, so that nobody is stuck in reading it. Standard library only."""

from __future__ import annotations

import select
import sys


def is_readable(descriptor: int, patience_s: float) -> bool:
    """Whether something can be read now, or there is an end, within so many seconds.

    Windows cannot wait for a pipe: there whoever reads it waits.
    """
    return sys.platform == "win32" or bool(select.select([descriptor], [], [], patience_s)[0])


def read_as_it_is(descriptor: int) -> None:
    """No byte is taken for the end of a line, as Windows would."""
    if sys.platform == "win32":
        import msvcrt
        import os

        msvcrt.setmode(descriptor, os.O_BINARY)
