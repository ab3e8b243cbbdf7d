"""Log lines for a reader that is late, or that does not read at all."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from streamer.bridge.telemetry.log_writer import LogWriter
from streamer.bridge.telemetry.logs import Text

PAGE = 4096
PATIENCE_S = 60.0


@dataclass
class Pipe:
    """The smallest possible pipe."""

    readable: int
    writable: int

    def fill(self) -> None:
        """Write until nothing more can be written without waiting."""
        os.set_blocking(self.writable, False)
        while True:
            try:
                os.write(self.writable, b"\n" * PAGE)
            except BlockingIOError:
                break
        os.set_blocking(self.writable, True)

    def read_until(self, words: str) -> list[str]:
        """Return the lines up to one with these words."""
        told = ""
        while words not in told or not told.endswith("\n"):
            told += os.read(self.readable, PAGE).decode()
        return [line for line in told.splitlines() if line]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(*os.pipe())
    fcntl.fcntl(made.writable, fcntl.F_SETPIPE_SZ, PAGE)
    yield made
    for descriptor in (made.readable, made.writable):
        try:
            os.close(descriptor)
        except OSError:
            continue  # the test has closed it


def writer(pipe: Pipe, most: int = 1 << 20) -> LogWriter:
    made = LogWriter(pipe.writable, most)
    made.setFormatter(Text())
    return made


def log(writer: LogWriter, event: str) -> None:
    writer.handle(logging.LogRecord("streamer.tested", logging.INFO, "", 0, event, (), None))


def test_lines_come_in_order(pipe: Pipe) -> None:
    """All lines arrive, and flush() waits for the last one."""
    with_lines = writer(pipe)
    for number in range(20):
        log(with_lines, f"event {number}.")
    with_lines.flush()
    lines = pipe.read_until("event 19.")
    assert [line.rpartition("info ")[2] for line in lines] == [f"event {number}." for number in range(20)]
    assert with_lines.dropped == 0


def test_who_logs_does_not_wait(pipe: Pipe) -> None:
    """Unread lines are kept, and arrive when the pipe is read."""
    pipe.fill()
    stuck = writer(pipe)
    for number in range(1000):
        log(stuck, f"event {number}.")
    assert stuck.dropped == 0
    lines = pipe.read_until("event 999.")
    assert len(lines) == 1000


def test_more_than_is_kept(pipe: Pipe) -> None:
    """Lines above the bound are counted, and a line says where they are missing."""
    pipe.fill()
    stuck = writer(pipe, 500)
    for number in range(100):
        log(stuck, f"event {number:03}.")
    kept = 100 - stuck.dropped
    assert 0 < kept < 20
    lines = pipe.read_until("dropped")
    assert [line.rpartition("info ")[2] for line in lines[:-1]] == [f"event {number:03}." for number in range(kept)]
    assert lines[-1].endswith(f"warning log lines dropped: they could not be written in time lines={100 - kept}")
    log(stuck, "one more.")
    assert pipe.read_until("one more.")[0].endswith("info one more.")


def test_nobody_is_there_any_more(pipe: Pipe) -> None:
    """If the reader is gone, every line is counted as dropped, once, and nothing else happens."""
    os.close(pipe.readable)
    lonely = writer(pipe)
    for number in range(3):
        log(lonely, f"event {number}.")
        until = time.monotonic() + PATIENCE_S
        while lonely.dropped <= number:
            assert time.monotonic() < until
            time.sleep(0.01)
    lonely.flush()
    assert lonely.dropped == 3


def test_a_descriptor_that_does_not_wait(pipe: Pipe) -> None:
    """A shared descriptor may be non-blocking; no line is lost because of that."""
    os.set_blocking(pipe.writable, False)
    shared = writer(pipe)
    for number in range(300):
        log(shared, f"event {number}.")
    assert len(pipe.read_until("event 299.")) == 300
    assert shared.dropped == 0
