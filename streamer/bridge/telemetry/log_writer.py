"""Writes log lines to a descriptor in a thread, so that logging never waits for the reader of the log.

A pipe that is not read, a stopped terminal or a full disk would otherwise block the loop, and with it all sessions. The
lines that wait for the thread have a bound; further ones are dropped and counted. Once writing works again, a line says
how many were dropped.
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
# The longest wait of flush(), which is called at the end of the program.
FLUSH_LIMIT_S: Final = 1.0
_TRY_AGAIN_MS: Final = 1000


class LogWriter(logging.Handler):
    """Writes to a descriptor, and never closes it."""

    def __init__(self, descriptor: int, most: int = MOST_WAITING) -> None:
        """`most`: how many bytes may wait at a time."""
        super().__init__()
        self.dropped = 0
        self._descriptor = descriptor
        self._most = most
        self._lines: deque[tuple[bytes, int]] = deque()  # each with the number of dropped lines that it reports
        self._waiting = 0  # bytes, including the line that is being written
        self._missing = 0  # lines that were dropped since the last report
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. This waits at most for another thread that queues one."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._waiting + len(line) > self._most:
                self._drop()
                return
            self._report_missing()
            self._add(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all lines are written, but at most FLUSH_LIMIT_S."""
        deadline = time.monotonic() + FLUSH_LIMIT_S
        with self._changed:
            while self._waiting and (remaining := deadline - time.monotonic()) > 0:
                self._changed.wait(remaining)

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def _add(self, line: bytes, reports: int = 0) -> None:
        self._lines.append((line, reports))
        self._waiting += len(line)

    def _drop(self, reports: int = 0) -> None:
        self.dropped += not reports
        self._missing += reports or 1

    def _report_missing(self) -> None:
        """Queue a line that reports the dropped lines, if there are any."""
        if self._missing:
            missing, self._missing = self._missing, 0
            fields = {"lines": missing}
            name, event = "streamer.bridge", "log lines dropped: they could not be written in time"
            record = logging.makeLogRecord(
                {"name": name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": event, "fields": fields}
            )
            self._add(self._line(record), missing)

    def _write_all(self) -> None:
        works = True
        while True:
            with self._changed:
                while not self._lines:
                    if self._missing and works:  # otherwise the next line tries again
                        self._report_missing()
                    else:
                        self._changed.wait()
                line, reports = self._lines.popleft()
            works = self._write(line)
            with self._changed:
                self._waiting -= len(line)
                if not works:
                    self._drop(reports)
                self._changed.notify_all()

    def _write(self, line: bytes) -> bool:
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:  # another process that shares the descriptor has made it non-blocking
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll(_TRY_AGAIN_MS)
            except OSError:  # the reader has gone, or the disk is full
                return False
        return True
