"""Measures the memory and processor time of other processes. Linux only."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from streamer.base.machine import command, descendants, find_process
from streamer.bridge.triton import MODEL
from streamer.commands.traffic.processes import memory_mb, program

# The programs behind the bridge, and their names in reports. A model other than the recogniser has its own name.
_NAMES = {"tritonserver": "Triton", "triton_python_backend_stub": "model"}


class Watched:
    """The watched processes of this machine. There are none if the service runs elsewhere."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids

    def pid(self, name: str) -> int:
        """Return the id of a process: `bridge`, `Triton` or `model`."""
        return self._pids[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the processes."""
        return tuple(self._pids)

    def memory_mb(self) -> dict[str, float]:
        """Return the memory of each process (RssAnon and RssShmem). Mapped files, such as tables, do not count."""
        return {name: memory_mb(pid) for name, pid in self._pids.items()}

    def cpu_s(self) -> float:
        """Return the processor time of all processes together."""
        return sum(process.cpu_s for pid in self._pids.values() if (process := find_process(pid)))


@contextmanager
def service(server: str | None, *arguments: str) -> Iterator[tuple[str, Watched]]:
    """Yield the address and the processes of the service. Starts one with these arguments if `server` is None."""
    if server:
        yield server, Watched({})
        return
    words = [sys.executable, "-m", "streamer", "serve", "--port", "0", "--instances", "1", *arguments]
    # A file instead of a pipe, because the log is not read while the session runs.
    with TemporaryFile("w+") as log, subprocess.Popen(words, stderr=log) as process:
        try:
            url = wait_ready(process, log)
            pids = {"bridge": process.pid}
            for child in descendants(process.pid):
                if (name := program(child.pid)) in _NAMES:
                    pids[_other_model(child.pid) or _NAMES[name]] = child.pid
            yield url, Watched(pids)
        finally:
            process.terminate()


def _other_model(pid: int) -> str | None:
    """Return the name of the model of this process; None if it is the recogniser, or no model at all."""
    paths = [Path(part) for part in command(pid) if part.endswith("model.py")]
    return next((path.parts[-3] for path in paths if path.parts[-3] != MODEL), None)


def wait_ready(process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """Wait until the log of the service says that it is ready, and return the address in that line."""
    while True:
        ended = process.poll() is not None
        log.seek(0)
        text = log.read()
        if match := re.search(r"ready: (ws:[^ ;]+)", text):
            return match[1]
        if ended:
            raise OSError(f"the service did not start: {text.strip()}")
        time.sleep(0.1)
