"""`streamer serve` as a process, for tests of its log, its signals, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

PATIENCE_S = 60.0

# The command, which ends when its standard input does: that is a pipe, whose other end only the test's process has. A
# test run that is killed leaves no services behind.
TIED = """
import os, runpy, signal, threading

def end():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=end, daemon=True).start()
runpy.run_module("streamer", run_name="__main__")
"""


@dataclass
class Serving:
    """A service in its own process, and the lines of its log so far."""

    process: subprocess.Popen[str]
    control: Path  # the socket for its operator
    lines: list[str] = field(default_factory=list)
    _reader: Thread | None = None

    @property
    def url(self) -> str:
        """The address of its websocket, from its log."""
        [found] = {match[0] for line in self.lines if (match := re.search(r"wss?://[\w.:/]+", line))}
        return found

    @property
    def state(self) -> dict[str, Any]:
        """The answer of /readyz."""
        try:
            with urllib.request.urlopen(self._page("/readyz"), timeout=60) as answer:
                told = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                told = error.read()
        state: dict[str, Any] = json.loads(told)
        return state

    @property
    def exposition(self) -> str:
        """The answer of /metrics."""
        with urllib.request.urlopen(self._page("/metrics"), timeout=60) as answer:
            return str(answer.read().decode())

    def wait(self) -> None:
        """Wait until it is ready."""
        self._reader = Thread(target=self._read, name="log of serve", daemon=True)
        self._reader.start()
        self.wait_for("ready: ws")

    def wait_for(self, words: str) -> None:
        """Wait until a line of the log contains these words."""
        assert self._reader is not None
        until = time.monotonic() + PATIENCE_S
        while not any(words in line for line in self.lines):
            assert self._reader.is_alive(), self.lines
            assert time.monotonic() < until, self.lines
            time.sleep(0.02)

    def send(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, as a supervisor would."""
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and return the exit status."""
        self.send(number)
        return self.ended()

    def ended(self, limit_s: float = PATIENCE_S) -> int:
        """Wait for its end. Returns the exit status."""
        status = self.process.wait(limit_s)
        assert self._reader is not None
        self._reader.join(limit_s)
        return status

    def roll(self, model: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `streamer roll`."""
        command = [sys.executable, "-m", "streamer", "roll", model, "--control", str(self.control), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def descendants(self) -> list[psutil.Process]:
        """All processes that it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _page(self, path: str) -> str:
        return self.url.replace("ws", "http", 1).rpartition("/v1/")[0] + path

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))


class RestartableService:
    """A service that can be stopped and started again on the same port, for asynchronous tests."""

    def __init__(self, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.site = f"http://127.0.0.1:{self._port}"
        self.lines: list[str] = []  # of its log so far
        self._arguments = arguments
        self._stack = ExitStack()
        self._served: Serving | None = None

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._served is not None

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        service = serving(*self._arguments, port=self._port)
        self._served = await asyncio.to_thread(self._stack.enter_context, service)

    def send(self, what: signal.Signals) -> None:
        """Send a signal: SIGSTOP suspends it, SIGCONT resumes it."""
        assert self._served is not None
        self._served.send(what)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and wait for the end."""
        if self._served is not None:
            await asyncio.to_thread(self._served.end, how)
            self.lines += self._served.lines
            self._served = None
            self._stack.close()


@contextmanager
def serving(*arguments: str, port: int = 0, environment: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A service that is ready, by default on any port. It is killed at the end if it has not ended.

    `environment`: variables besides those of the tests; an empty one is not set.
    """
    with tempfile.TemporaryDirectory(prefix="streamer-test-") as folder:
        control = Path(folder) / "control"
        arguments = ("--port", str(port), "--control", str(control), *arguments)
        command = [sys.executable, "-c", TIED, "serve", *arguments]
        # A reader, and another instance, would be processes that few tests need; --reader and --instances ask for them.
        few = {"STREAMER_SERVE_READER": "off", "STREAMER_SERVE_INSTANCES": "1"}
        variables = {name: value for name, value in {**few, **os.environ, **(environment or {})}.items() if value}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, env=variables) as process:
            served = Serving(process, control)
            try:
                served.wait()
                yield served
                failures = [line for line in served.lines if re.search(r"^Traceback|never retrieved", line)]
                assert not failures, served.lines
            finally:
                process.kill()
                process.wait()
                if served._reader is not None:
                    served._reader.join(PATIENCE_S)
