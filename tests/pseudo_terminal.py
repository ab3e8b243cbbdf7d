"""The command on a pseudo-terminal: keys and the visible output."""

from __future__ import annotations

import codecs
import os
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import ioctl

import psutil

COMMAND = [sys.executable, "-m", "streamer"]
PATIENCE_S = 60.0

# Makes the terminal on standard input the controlling one, which sends Ctrl-C, and then becomes the command. (Not with
# pty.fork(): a fork of a process with threads gives a warning.)
IN_FRONT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"

# A time, and lines that break between words. The lines after the first are indented by the time.
_FINAL = re.compile(r"\[(\d+:\d\d\.\d)\] ([^\x1b\r\n]*(?:\r\n {9}[^\x1b\r\n]*)*)\r\n")


def finals_on(shown: str) -> list[tuple[str, str]]:
    """The finals on a terminal: their times and texts, each text as one line."""
    return [(time, " ".join(lines.split())) for time, lines in _FINAL.findall(shown)]


class Terminal:
    """The command on a pseudo-terminal, as a user would run it."""

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
        # With a Ctrl-C, a terminal drops what it has not shown yet, perhaps within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def watch(self, until: str = "", after: int = 0) -> None:
        """Read until these characters come, after this many others, or to the end."""
        deadline = time.monotonic() + PATIENCE_S
        with self._or_killed():
            while not until or until not in self.shown[after:]:
                assert time.monotonic() < deadline, self.shown
                if select.select([self._terminal], [], [], 0.1)[0]:
                    try:
                        received = os.read(self._terminal, 65536)
                    except OSError:  # Linux reports the end of a terminal like this
                        received = b""
                    if not received:
                        break
                    self.shown += self._decoder.decode(received)
            assert until in self.shown[after:], self.shown

    def settle(self, after: int, quiet_s: float = 0.5) -> None:
        """Read until something comes after this many characters, and then nothing for a moment."""
        deadline = time.monotonic() + PATIENCE_S
        with self._or_killed():
            while select.select([self._terminal], [], [], quiet_s)[0] or len(self.shown) <= after:
                assert time.monotonic() < deadline, self.shown
                if select.select([self._terminal], [], [], 0)[0]:
                    self.shown += self._decoder.decode(os.read(self._terminal, 65536))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._terminal)

    def status(self) -> int:
        """Wait for the end. Returns the exit status."""
        self.watch()
        os.close(self._terminal)
        with self._or_killed():
            status: int = self.process.wait(PATIENCE_S)
        return status

    @contextmanager
    def _or_killed(self) -> Iterator[None]:
        """Kill the command if what the test waits for does not come: it would run on beside all further tests."""
        try:
            yield
        except BaseException:
            with suppress(psutil.NoSuchProcess):
                self.process.kill()
            self.process.wait(PATIENCE_S)
            raise
