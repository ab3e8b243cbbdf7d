"""The service that a load measurement starts for itself: `streamer serve` in a process of its own, as a user runs it.

    python -m streamer.commands.traffic.service [SETTINGS OF streamer serve]

Run like this, it is `streamer serve`, but it ends when the process that started it does, whatever happens to that one.
"""

from __future__ import annotations

import ctypes
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

READY: Final = re.compile(r"ready: (ws:[^ ;]+)")
POLL_S: Final = 0.05
START_LIMIT_S: Final = 600.0  # a large model on a slow disk takes minutes
END_LIMIT_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1
_LAST_LINES: Final = 5


class NotStarted(Exception):
    """The service did not start. The message has the last lines of its log."""


class OwnService:
    """A service that was started for a measurement."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[str]) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """The id of the process of the bridge."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self._process.poll() is None

    def wait_ready(self) -> str:
        """Wait until it is ready, and return its address. NotStarted if it ends instead."""
        until = time.monotonic() + START_LIMIT_S
        while True:
            alive = self.alive
            if match := READY.search(self._read_log()):
                return match[1]
            if not alive or time.monotonic() > until:
                raise NotStarted("the service did not start:\n" + self.last_lines())
            time.sleep(POLL_S)

    def death(self) -> str:
        """Return how its process ended, in words."""
        status = self._process.wait()
        if status < 0:
            return f"its process was ended by the signal {signal.Signals(-status).name}"
        return f"its process ended with the status {status}:\n{self.last_lines()}"

    def last_lines(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self._read_log().strip().splitlines()[-_LAST_LINES:])

    def _read_log(self) -> str:
        self._log.seek(0)
        return self._log.read()


@contextmanager
def own_service(settings: Sequence[str], tree: Path | None = None) -> Iterator[OwnService]:
    """Start `streamer serve` on a free port of this machine, with these settings, and stop it at the end.

    `tree`: a folder with the code to run, instead of the code that is running here.
    """
    command = [sys.executable, "-m", "streamer.commands.traffic.service", "--port", "0", *settings]
    environment = None if tree is None else {**os.environ, "PYTHONPATH": str(tree)}
    # A file instead of a pipe: nobody reads the log during the measurement.
    with TemporaryFile("w+", errors="replace") as log:
        # In a session of its own, because Ctrl-C in a terminal must reach only this process.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=log, start_new_session=True, cwd=tree, env=environment
        )
        try:
            yield OwnService(process, log)
        finally:
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> None:
    """Be `streamer serve`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    sys.argv = ["streamer", "serve", *sys.argv[1:]]
    runpy.run_module("streamer", run_name="__main__")


if __name__ == "__main__":
    main()
