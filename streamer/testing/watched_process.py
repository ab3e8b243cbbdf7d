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

from streamer.machine.processes import command, descendants, find_process

# The programs behind the bridge, and their names in reports.
_NAMES = {"tritonserver": "Triton", "triton_python_backend_stub": "model"}


class Watched:
    """The watched processes of this machine. There are none if the service runs elsewhere."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids

    def pid(self, name: str) -> int:
        """The id of one of them: `bridge`, `Triton` or `model`."""
        return self._pids[name]

    def memory_mb(self) -> dict[str, float]:
        """The memory of each process without mapped files (RssAnon and RssShmem), so mapped tables do not count."""
        return {name: memory_mb(pid) for name, pid in self._pids.items()}

    def cpu_s(self) -> float:
        """The processor time of all processes together."""
        return sum(found.cpu_s for pid in self._pids.values() if (found := find_process(pid)))


@contextmanager
def service(server: str | None, *arguments: str) -> Iterator[tuple[str, Watched]]:
    """The address of the service and its processes. Starts one with these arguments if `server` is None."""
    if server:
        yield server, Watched({})
        return
    command = [sys.executable, "-m", "streamer", "serve", "--port", "0", "--instances", "1", *arguments]
    # A file instead of a pipe, because the log is not read while the session runs.
    with TemporaryFile("w+") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            url = wait_ready(process, log)
            pids = {"bridge": process.pid}
            for found in descendants(process.pid):
                if (name := program(found.pid)) in _NAMES:
                    pids[_NAMES[name]] = found.pid
            yield url, Watched(pids)
        finally:
            process.terminate()


def wait_ready(process: subprocess.Popen[bytes], log: IO[str]) -> str:
    """Wait until the log of the service says that it is ready, and return the address in that line."""
    while True:
        ended = process.poll() is not None
        log.seek(0)
        said = log.read()
        if found := re.search(r"ready: (ws:[^ ;]+)", said):
            return found[1]
        if ended:
            raise OSError(f"the service did not start: {said.strip()}")
        time.sleep(0.1)


def program(pid: int) -> str:
    """The name of the program that this process runs; empty when it has ended."""
    return (command(pid) or [""])[0].rpartition("/")[2]


def memory_mb(pid: int) -> float:
    """The memory of this process without mapped files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)) / 1024
