"""Start the real Triton server of the wheel `nvidia-pytriton` on this machine, and end it whatever happens.

    with TritonServer(asr_repository()) as server:
        ...  # server.grpc_address

Everything is synchronous, safe to call from any thread and made of the standard library, so that a command
line can call start() before it imports anything else. In asyncio use `asyncio.to_thread(server.wait_ready)`,
where stop() makes a wait_ready() that is under way fail at once.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from streamer.repository import linked_copy, models_in
from streamer.triton import TritonError, guard
from streamer.triton.installation import Installation, find_tritonserver

__all__ = ["TritonError", "TritonServer", "find_tritonserver"]

LOOPBACK = "127.0.0.1"
START_ATTEMPTS = 3  # a port may be taken between our choice and the server's use of it
POLL_SECONDS = 0.02
ANSWER_SECONDS = 1.0  # limit for one readiness question
EXIT_MARGIN_SECONDS = 20
STOP_MARGIN_SECONDS = 15.0  # on top of the grace, for the guard to kill and clean up
LOG_TAIL = 256 * 1024
LAST_LINES = 15
GUARD = str(Path(guard.__file__).resolve())
TAKEN = "already in use"
# When a Python process cannot even begin, Triton 2.51 says so in its log and goes on waiting for it.
NEVER_READY = ("Failed to preinitialize Python stub", "error while loading shared libraries")
LOG_LINE = re.compile(r"^(?:(?P<level>[EWI])\d{4} .*?\]|\[libprotobuf (?P<library>ERROR) [^\]]*\]) +(?P<words>.*)$")
HARMLESS = "CudaDriverHelper has not been initialized"  # an error line on every machine without a GPU


class TritonServer:
    """A Triton server of our own: loopback ports it picks itself, gone when we are."""

    def __init__(
        self,
        repository: Path,
        *,
        models: Sequence[str] | None = None,
        instances: int | None = None,
        slots: int | None = None,
        ready_timeout: float = 60.0,
        grace: float = 5.0,
        log: Path | None = None,
    ) -> None:
        """Load `models` (all of the repository when not given).

        `instances` and `slots` (sequences of an instance) replace what the config.pbtxt of each of them says.
        `grace` is how long stop() lets requests in flight and open sequences end. `log` is appended to.
        """
        self._repository = repository.resolve()
        self._models = tuple(models) if models is not None else models_in(self._repository)
        self._instances, self._slots = instances, slots
        self._ready_timeout, self._grace, self._log = ready_timeout, grace, log
        self._running: _Running | None = None
        self._lock = threading.Lock()  # over changes of _running

    def __enter__(self) -> TritonServer:
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()

    def start(self) -> None:
        """Spawn the server and return at once; does nothing when it has been started."""
        with self._lock:
            if self._running is None:
                self._running = self._spawn()

    def wait_ready(self) -> None:
        """Wait until every model answers. TritonError has the server's own words; nothing is left running."""
        running = self._started()
        deadline = time.monotonic() + self._ready_timeout
        attempt = 1
        while not running.answers(self._models):
            ended = running.guard.poll() is not None
            log = running.read_log()
            if self._running is not running:
                raise TritonError("Triton was stopped before it was ready")
            if ended and TAKEN in log and attempt < START_ATTEMPTS:
                attempt += 1
                running = self._again(running)
            elif ended or any(words in log for words in NEVER_READY):
                self.stop()
                raise TritonError(f"Triton could not start: {_words(log)}")
            elif time.monotonic() > deadline:
                self.stop()
                raise TritonError(f"Triton was not ready after {self._ready_timeout:g} s: {_words(log)}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End the server and wait until nothing of it is left; bounded, and may be called again."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close(self._grace)

    def kill(self) -> None:
        """End the server at once, whatever state it is in, and what belongs to it; start() makes another."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.kill()
            running.close(0.0)

    @property
    def running(self) -> bool:
        """Whether the server has been started and has not ended, by itself or by stop()."""
        return self._running is not None and self._running.guard.poll() is None

    # A start that finds a port taken picks others: the addresses are final once wait_ready() has returned.

    @property
    def grpc_address(self) -> str:
        """host:port of the gRPC endpoint."""
        return f"{LOOPBACK}:{self._started().ports.grpc}"

    @property
    def http_address(self) -> str:
        """host:port of the HTTP endpoint."""
        return f"{LOOPBACK}:{self._started().ports.http}"

    @property
    def metrics_address(self) -> str:
        """host:port of the Prometheus endpoint."""
        return f"{LOOPBACK}:{self._started().ports.metrics}"

    @property
    def pid(self) -> int:
        """Process number of tritonserver itself."""
        return self._started().pid()

    def _started(self) -> _Running:
        if self._running is None:
            raise TritonError("Triton has not been started")
        return self._running

    def _again(self, ended: _Running) -> _Running:
        """Start once more, on other ports."""
        with self._lock:
            if self._running is not ended:
                raise TritonError("Triton was stopped before it was ready")
            ended.close(self._grace)
            self._running = None
            self._running = self._spawn()
            return self._running

    def _spawn(self) -> _Running:
        installation = find_tritonserver()
        try:
            with ExitStack() as always, ExitStack() as undo:
                folder, lock = _claim_folder()
                always.callback(os.close, lock)  # the guard's copy keeps the folder locked
                undo.callback(guard.remove, folder)
                installation.link_backend(folder / "backends")
                ports = _free_ports()
                command = _command(installation, folder, self._repository_in(folder), self._models, ports, self._grace)
                log = undo.enter_context((self._log or folder / "log").open("a+b"))
                log_start = log.tell()
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", GUARD, str(folder), str(self._grace), *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=folder,
                    env=installation.environment(folder),
                    pass_fds=[lock],
                    start_new_session=True,  # Ctrl-C in a terminal is for us alone
                )
                undo.pop_all()
        except OSError as error:
            raise TritonError(f"Triton could not be started: {error}") from error
        return _Running(process, folder, ports, log, log_start)

    def _repository_in(self, folder: Path) -> Path:
        """The repository as it is, or for settings of our own a copy made of links."""
        if self._instances is None and self._slots is None:
            return self._repository
        copy = folder / "models"
        linked_copy(self._repository, copy, self._models, instances=self._instances, slots=self._slots)
        return copy


@dataclass(frozen=True)
class _Ports:
    grpc: int
    http: int
    metrics: int


@dataclass
class _Running:
    """One started server, seen through its guard."""

    guard: subprocess.Popen[bytes]
    folder: Path
    ports: _Ports
    log: BinaryIO
    log_start: int
    _pid: int | None = None

    def pid(self) -> int:
        assert self.guard.stdout is not None
        if self._pid is None:
            line = self.guard.stdout.readline()
            if not line:
                raise TritonError(f"Triton could not start: {_words(self.read_log())}")
            self._pid = int(line)
        return self._pid

    def read_log(self) -> str:
        """What this server has written, at most the last part of it."""
        try:
            descriptor = self.log.fileno()
            start = max(self.log_start, os.fstat(descriptor).st_size - LOG_TAIL)
            return os.pread(descriptor, LOG_TAIL, start).decode(errors="replace")
        except (ValueError, OSError):  # closed by stop() in another thread
            return ""

    def answers(self, models: Sequence[str]) -> bool:
        ready = all(_get(self.ports.http, f"/v2/models/{model}/ready") for model in models)
        return ready and _get(self.ports.metrics, "/metrics")

    def kill(self) -> None:
        """Kill the server, also one that is stopped; its guard then removes what is left of it."""
        # The guard ends right after the server: while it lives the number is not yet another process's.
        with suppress(TritonError, OSError):
            if self.guard.poll() is None:
                os.kill(self.pid(), signal.SIGKILL)

    def close(self, grace: float) -> None:
        assert self.guard.stdin is not None
        assert self.guard.stdout is not None
        self.guard.stdin.close()
        try:
            self.guard.wait(grace + STOP_MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.guard.kill()  # the server dies with it
            self.guard.wait()
        self.guard.stdout.close()
        self.log.close()
        guard.remove(self.folder)  # the guard has done it unless it was killed


def _claim_folder() -> tuple[Path, int]:
    """A temporary folder and the lock that says it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=guard.FOLDER_PREFIX))
        with suppress(FileNotFoundError):  # swept by another start before we had the lock
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:
                    return folder, lock
            os.close(lock)


def _free_ports() -> _Ports:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        grpc, http, metrics = (each.getsockname()[1] for each in sockets)
    return _Ports(grpc, http, metrics)


def _command(
    installation: Installation,
    folder: Path,
    repository: Path,
    models: Sequence[str],
    ports: _Ports,
    grace: float,
) -> list[str]:
    options = {
        "model-repository": repository,
        "backend-directory": folder / "backends",
        "model-control-mode": "explicit",
        "grpc-address": LOOPBACK,
        "grpc-port": ports.grpc,
        "http-address": LOOPBACK,
        "http-port": ports.http,
        "metrics-address": LOOPBACK,
        "metrics-port": ports.metrics,
        # Longer than our grace: the server crashes when this limit passes with clients still sending.
        "exit-timeout-secs": int(grace) + EXIT_MARGIN_SECONDS,
    }
    python = {
        "shm-region-prefix-name": f"{folder.name}-",
        "shm-default-byte-size": 4 << 20,
        "shm-growth-byte-size": 1 << 20,
    }
    return [
        str(installation.binary),
        "--disable-auto-complete-config",  # a second less for each model
        *(f"--{name}={value}" for name, value in options.items()),
        *(f"--backend-config=python,{name}={value}" for name, value in python.items()),
        *(f"--load-model={model}" for model in models),
    ]


def _get(port: int, path: str) -> bool:
    """Whether a loopback HTTP server answers 200. The library for it would cost time at every start."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
            return connection.recv(64).split()[1:2] == [b"200"]
    except OSError:
        return False


def _words(log: str) -> str:
    """What of the server's log tells why it failed, in its own words."""
    end = log.rpartition("\nerror: ")[2].rstrip().rstrip(";").rstrip() if "\nerror: " in log else ""
    if "load failed for model" in end:  # it carries the model's traceback; the lines before say the same
        return end
    found: list[str] = []
    for line in log.splitlines():
        parts = LOG_LINE.match(line)
        error = parts is not None and (parts["level"] == "E" or parts["library"])
        if (error or any(words in line for words in NEVER_READY)) and HARMLESS not in line:
            found.append(parts["words"].strip('" ').replace("\\n", "\n") if parts else line)
    if end:
        found.append(end)
    if not found:  # what it did last, without the tables
        found = [line for line in log.splitlines() if line and line[0] not in "+|"][-LAST_LINES:]
    return "\n".join(dict.fromkeys(found)) or "it wrote nothing"
