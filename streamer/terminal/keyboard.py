"""Reads single keys of a terminal, without Enter. At the end the terminal gets its former mode back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

if sys.platform != "win32":
    import termios
    import tty


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` in the running loop for each key. Yields whether there is a keyboard.

    Ctrl-C stays a signal. On Windows, which has no such terminals, there is no keyboard.
    """
    if sys.platform == "win32":
        yield False
        return
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        # A process in the background must not touch the terminal: the system would stop it.
        in_front = os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError, AttributeError, termios.error):
        in_front = False
    if not in_front:
        yield False
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 64)
        if not data:
            loop.remove_reader(descriptor)
        for key in data.decode(errors="replace"):
            pressed(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    # After Ctrl-Z and `fg` the shell may have given the terminal another mode.
    loop.add_signal_handler(signal.SIGCONT, tty.setcbreak, descriptor)
    try:
        yield True
    finally:
        loop.remove_signal_handler(signal.SIGCONT)
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # the terminal has been closed
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
