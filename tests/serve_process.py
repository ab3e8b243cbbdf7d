"""`streamer serve` as a program, for the tests that need its process: its log, its signals, what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

PATIENCE_S = 60.0


@dataclass
class Serving:
    """A service in a process of its own, and the lines of its log so far."""

    process: subprocess.Popen[str]
    control: Path  # where its operator asks
    lines: list[str] = field(default_factory=list)
    _reader: Thread | None = None

    @property
    def url(self) -> str:
        """Where its websocket is, as it said itself."""
        [found] = {match[0] for line in self.lines if (match := re.search(r"ws://[\w.:/]+", line))}
        return found

    @property
    def state(self) -> dict[str, Any]:
        """What /readyz tells."""
        try:
            with urllib.request.urlopen(self._page("/readyz"), timeout=5) as answer:
                told = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                told = error.read()
        state: dict[str, Any] = json.loads(told)
        return state

    @property
    def exposition(self) -> str:
        """What /metrics tells."""
        with urllib.request.urlopen(self._page("/metrics"), timeout=5) as answer:
            return str(answer.read().decode())

    def wait(self) -> None:
        """Until it is ready."""
        self._reader = Thread(target=self._read, name="log of serve", daemon=True)
        self._reader.start()
        until = time.monotonic() + PATIENCE_S
        while not any("ws://" in line for line in self.lines):
            assert self._reader.is_alive(), self.lines
            assert time.monotonic() < until, self.lines
            time.sleep(0.02)

    def send(self, number: signal.Signals = signal.SIGTERM) -> None:
        """As a supervisor would."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """A signal; the exit status."""
        self.send(number)
        return self.ended()

    def ended(self, limit_s: float = PATIENCE_S) -> int:
        """Its exit status, once it has ended."""
        status = self.process.wait(limit_s)
        assert self._reader is not None
        self._reader.join(limit_s)
        return status

    def roll(self, model: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`streamer roll`."""
        command = [sys.executable, "-m", "streamer", "roll", model, "--control", str(self.control), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def descendants(self) -> list[psutil.Process]:
        """All that it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _page(self, path: str) -> str:
        return self.url.replace("ws", "http", 1).rpartition("/v1/")[0] + path

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def serving(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A service on any port, ready; killed at the end if it has not ended."""
    with tempfile.TemporaryDirectory(prefix="streamer-test-") as folder:
        control = Path(folder) / "control"
        command = [sys.executable, "-m", "streamer", "serve", "--port", "0", "--control", str(control), *arguments]
        variables = {**os.environ, **(environment or {})}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as process:
            served = Serving(process, control)
            try:
                served.wait()
                yield served
            finally:
                process.kill()
                process.wait()
                if served._reader is not None:
                    served._reader.join(PATIENCE_S)
