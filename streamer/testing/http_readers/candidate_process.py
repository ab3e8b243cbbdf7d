"""A candidate in its own process, whose CPU time and memory can be measured."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from streamer.testing.http_readers import candidates
from streamer.testing.http_readers.candidates import Files

FLOOD_S = 8.0


class CandidateProcess:
    """A candidate in its own process."""

    def __init__(self, name: str, files: Files = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [sys.executable, "-m", candidates.__name__, name, str(self.port), *(files or ())]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> CandidateProcess:
        for _ in range(200):
            with suppress(OSError):
                self.connect().close()
                return self
            time.sleep(0.05)
        raise SystemExit("a candidate did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def connect(self, data: bytes = b"") -> socket.socket:
        """Open a connection with a small send buffer, and send data."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        made.sendall(data)
        return made

    @property
    def cpu_s(self) -> float:
        """The CPU time that it has used so far."""
        # In nanoseconds; psutil counts in hundredths of a second.
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    @property
    def megabytes(self) -> float:
        """Its memory."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize() / 1e6


def upgrade(path: str) -> bytes:
    """Write a request for a websocket."""
    fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()


def pushed(connection: socket.socket, data: bytes, most: int, quiet_s: float = 0.5) -> int:
    """Send until the other side stops taking data, or `most` bytes or FLOOD_S are reached. Returns how many bytes."""
    connection.settimeout(quiet_s)
    sent, until = 0, time.monotonic() + FLOOD_S
    with suppress(OSError):
        while sent < most and time.monotonic() < until:
            sent += connection.send(memoryview(data)[sent % len(data) :])
    return sent
