"""The service as a process of its own, that can be killed and started again at the same address."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from typing import Final

START_S: Final = 40.0
STOP_S: Final = 40.0


class ServeProcess:
    """`python -m streamer serve` in front of a Triton that runs already, on a port that stays the same."""

    def __init__(self, triton: str, log: Path, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.site = f"http://127.0.0.1:{self._port}"
        self._command = ("-m", "streamer", "serve", "--triton", triton, "--port", str(self._port), *arguments)
        self._log = log
        self._process: Process | None = None

    async def start(self) -> None:
        """Returns when it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, stdin=DEVNULL, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        deadline = time.monotonic() + START_S
        while not await asyncio.to_thread(self._ready):
            assert self._process.returncode is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            await asyncio.sleep(0.1)

    def send(self, what: signal.Signals) -> None:
        """SIGSTOP holds it, SIGCONT lets it go on."""
        assert self._process is not None
        self._process.send_signal(what)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it; returns when it has ended."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await asyncio.wait_for(self._process.wait(), STOP_S)
        self._process = None

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.site}/readyz", timeout=2):
                return True
        except (OSError, urllib.error.HTTPError):
            return False
