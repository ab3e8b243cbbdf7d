"""Lines of the log on their way to a descriptor: whoever logs never waits for whoever reads.

A pipe that nobody reads, a terminal that was stopped or a full disk would otherwise hold the loop, and with it all
sessions. A thread writes, and what waits for it has a bound. What is too much is dropped and counted. Once lines are
taken again, one of them says how many are missing.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from typing import Final

MOST_WAITING: Final = 1 << 20  # bytes
# At the end of the program, for what still waits.
FLUSH_LIMIT_S: Final = 1.0
_TRY_AGAIN_MS: Final = 1000


class LogWriter(logging.Handler):
    """Writes to a descriptor, which stays open."""

    def __init__(self, descriptor: int, most: int = MOST_WAITING) -> None:
        """`most` bytes wait at a time."""
        super().__init__()
        self.dropped = 0
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[tuple[bytes, int]] = deque()  # each with the number of missing lines that it tells of
        self._waiting = 0  # bytes, with the line that is being written
        self._missing = 0  # lines that were dropped since this was last said
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits for anything but another thread that adds a line."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._waiting + len(line) > self._most:
                self._drop()
                return
            self._say_missing()
            self._add(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Waits until all is written, for a moment at most."""
        deadline = time.monotonic() + FLUSH_LIMIT_S
        with self._changed:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def _add(self, line: bytes, tells: int = 0) -> None:
        self._lines.append((line, tells))
        self._waiting += len(line)

    def _drop(self, tells: int = 0) -> None:
        self.dropped += not tells
        self._missing += tells or 1

    def _say_missing(self) -> None:
        """Where lines are missing, one that says so."""
        if self._missing:
            missing, self._missing = self._missing, 0
            fields = {"lines": missing}
            name, event = "streamer.bridge", "log lines dropped: nobody took them"
            record = logging.makeLogRecord(
                {"name": name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": event, "fields": fields}
            )
            self._add(self._line(record), missing)

    def _write_all(self) -> None:
        works = True
        while True:
            with self._changed:
                while not self._lines:
                    if self._missing and works:  # else it is tried again beside the next line
                        self._say_missing()
                    else:
                        self._changed.wait()
                line, tells = self._lines.popleft()
            works = self._write(line)
            with self._changed:
                self._waiting -= len(line)
                if not works:
                    self._drop(tells)
                self._changed.notify_all()

    def _write(self, line: bytes) -> bool:
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:  # whoever shares the descriptor has made it so
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(_TRY_AGAIN_MS)
            except OSError:  # nobody reads any more, or the disk is full
                return False
        return True
