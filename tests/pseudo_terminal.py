"""Somebody in front of a terminal: the command on a pseudo-terminal, its keys and what is shown."""

from __future__ import annotations

import codecs
import os
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl

import psutil

COMMAND = [sys.executable, "-m", "streamer"]
PATIENCE_S = 60.0

# Makes the terminal on standard input the one that sends Ctrl-C, then becomes the command. (Not with pty.fork():
# a fork of a process with threads is a warning.)
IN_FRONT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


# A time, and lines that break between words: the others are indented by the time.
_FINAL = re.compile(r"\[(\d+:\d\d\.\d)\] ([^\x1b\r\n]*(?:\r\n {9}[^\x1b\r\n]*)*)\r\n")


def finals_on(shown: str) -> list[tuple[str, str]]:
    """The finals that a terminal was given: their times, and each as one line again."""
    return [(time, " ".join(lines.split())) for time, lines in _FINAL.findall(shown)]


class Terminal:
    """The command on a pseudo-terminal, as somebody sits in front of it."""

    def __init__(
        self,
        *arguments: str,
        width: int = 80,
        environment: Mapping[str, str] = os.environ,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._terminal, inside = os.openpty()
        ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.process = psutil.Popen(
            [sys.executable, "-c", IN_FRONT, *command, *arguments],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**environment, "TERM": "xterm"},
        )
        os.close(inside)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def watch(self, until: str = "", after: int = 0) -> None:
        """Reads until these characters are there, behind so many others, or to the end."""
        deadline = time.monotonic() + PATIENCE_S
        while not until or until not in self.shown[after:]:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    received = os.read(self._terminal, 65536)
                except OSError:  # how Linux tells the end of a terminal
                    received = b""
                if not received:
                    break
                self.shown += self._decoder.decode(received)
        assert until in self.shown[after:], self.shown

    def settle(self, after: int, quiet_s: float = 0.5) -> None:
        """Reads until something has come behind so many characters, and then nothing more for a moment."""
        deadline = time.monotonic() + PATIENCE_S
        while select.select([self._terminal], [], [], quiet_s)[0] or len(self.shown) <= after:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._terminal], [], [], 0)[0]:
                self.shown += self._decoder.decode(os.read(self._terminal, 65536))

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self._terminal, keys.encode())

    def hang_up(self) -> None:
        """Closes the window."""
        os.close(self._terminal)

    def status(self) -> int:
        """Waits for the end; the exit status."""
        self.watch()
        os.close(self._terminal)
        status: int = self.process.wait(PATIENCE_S)
        return status
