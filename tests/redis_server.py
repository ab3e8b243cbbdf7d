"""A real store for bridges: a redis-server of a test, on a Unix socket in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from tests.project import ROOT

PATIENCE_S = 60.0
# scripts/system_packages unpacks it there where it is not installed.
UNPACKED = ROOT / "build/redis"
SECRET = "a secret of these bridges, which no other test has"


class RedisServer:
    """A store that can be killed, stopped and started again, each time without what it had."""

    def __init__(self, folder: Path, password: str = "") -> None:
        self.socket = folder / "redis"
        self.secret = folder / "secret"
        self.secret.write_text(f"{SECRET}\n")
        user = f":{password}@" if password else ""
        self.address = f"unix://{user}{self.socket}"
        self._settings = ["--requirepass", password] if password else []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> list[str]:
        """The settings of a service that uses it."""
        return ["--store", self.address, "--store-secret", str(self.secret)]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = shutil.which("redis-server") or str(UNPACKED / "usr/bin/redis-server")
        libraries = ":".join(map(str, UNPACKED.glob("usr/lib/*")))
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if program.startswith(str(ROOT)) else None
        command = [program, "--port", "0", "--unixsocket", str(self.socket), "--save", ""]
        self._process = subprocess.Popen(
            [*command, "--appendonly", "no", "--rdbcompression", "no", *self._settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        until = time.monotonic() + PATIENCE_S
        while not self._listens():
            assert self._process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once. What it had is gone."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal: SIGSTOP suspends it, SIGCONT resumes it."""
        assert self._process is not None
        self._process.send_signal(number)

    @contextmanager
    def client(self) -> Iterator[Redis]:
        """Somebody else who can read and write everything in it."""
        with Redis.from_url(self.address) as client:
            yield client

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as attempt:
            return attempt.connect_ex(str(self.socket)) == 0


@contextmanager
def redis_server(password: str = "") -> Iterator[RedisServer]:
    """A store that runs."""
    with tempfile.TemporaryDirectory(prefix="streamer-test-") as folder:
        server = RedisServer(Path(folder), password)
        try:
            server.start()
            yield server
        finally:
            server.kill()
