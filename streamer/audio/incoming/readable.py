"""Waits for a pipe, so that reading it never blocks. Standard library only."""

from __future__ import annotations

import select
import sys


def is_readable(descriptor: int, patience_s: float) -> bool:
    """Whether data or the end can be read now, or within this time.

    Windows cannot wait for a pipe, so there the reader has to wait.
    """
    return sys.platform == "win32" or bool(select.select([descriptor], [], [], patience_s)[0])


def read_as_it_is(descriptor: int) -> None:
    """Read the pipe as bytes. Windows would otherwise change the ends of lines."""
    if sys.platform == "win32":
        import msvcrt
        import os

        msvcrt.setmode(descriptor, os.O_BINARY)
