"""One process of tritonserver, reached through its guard: its state, log, folder and shared memory, and its end."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from streamer.bridge.triton import TritonError, server_folder

LOOPBACK, UNIX = "127.0.0.1", "unix:"
LONGEST_SOCKET = 107  # the most bytes in the path of a Unix socket
ANSWER_SECONDS = 1.0  # for one readiness check
CONTROL_SECONDS = 60.0  # for a model to be loaded or unloaded while the server runs
STOP_MARGIN_SECONDS = 15.0  # on top of the grace, for the guard to kill and clean up
START_SECONDS = 15.0  # for the guard to write the server's process number
END_SECONDS = 5.0  # for killed processes to end, because one may be stuck in a driver
HTTP_OK = 200
LOG_TAIL = 256 * 1024
LAST_LINES = 15
# If a Python process cannot start at all, Triton 2.51 logs one of these and waits forever.
NEVER_READY = ("Failed to preinitialize Python stub", "error while loading shared libraries")
# Triton does not know why a Python process has ended, so its message gives no reason.
NOT_HEALTHY = "is not healthy."
MODEL_KILLED = "A process of the model was killed while it loaded, usually because memory ran out."
LOG_LINE = re.compile(r"^(?:(?P<level>[EWI])\d{4} .*?\]|\[libprotobuf (?P<library>ERROR) [^\]]*\]) +(?P<words>.*)$")
HARMLESS = "CudaDriverHelper has not been initialized"  # Triton logs this error on every machine without a GPU


@dataclass(frozen=True)
class Endpoint:
    """The address of one protocol in Triton's options: a loopback port, or a socket in the server's folder."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"

    @contextmanager
    def connect(self, seconds: float) -> Iterator[socket.socket]:
        """Open a connection to this address. `seconds`: the limit of each of its waits."""
        if self.address.startswith(UNIX):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(seconds)
                connection.connect(self.address.removeprefix(UNIX))
                yield connection
        else:
            with socket.create_connection((self.address, self.port), timeout=seconds) as connection:
                yield connection


@dataclass(frozen=True)
class Endpoints:
    """The addresses of all protocols of one server."""

    grpc: Endpoint
    http: Endpoint
    metrics: Endpoint


@dataclass
class ServerProcess:
    """One process of tritonserver, reached through its guard."""

    guard: subprocess.Popen[bytes]
    folder: Path
    endpoints: Endpoints
    log: BinaryIO
    log_start: int
    _pid: int | None = None
    _process: int | None = None  # a descriptor for the server's process (pidfd)
    _pid_lock: threading.Lock = field(default_factory=threading.Lock)

    def pid(self) -> int:
        """Return the process number of tritonserver itself."""
        assert self.guard.stdout is not None
        with self._pid_lock:
            if self._pid is None:
                readable = _is_readable(self.guard.stdout.fileno(), START_SECONDS)
                line = self.guard.stdout.readline() if readable else b""
                if not line:
                    raise TritonError(f"Triton could not start: {failure_in(self.read_log())}")
                self._pid = int(line)
                with suppress(OSError):  # the server has ended already, or the kernel is too old
                    self._process = os.pidfd_open(self._pid)
            return self._pid

    def has_ended(self) -> bool:
        """Return whether the server has ended, even if its guard is stopped (SIGSTOP) and cannot say so."""
        assert self.guard.stdout is not None
        if self.guard.poll() is not None:
            return True
        if self._pid is None and _is_readable(self.guard.stdout.fileno(), 0.0):
            with suppress(TritonError):
                self.pid()
        return self._process is not None and _is_readable(self._process, 0.0)

    def read_log(self) -> str:
        """Return the last part of this server's log."""
        try:
            descriptor = self.log.fileno()
            start = max(self.log_start, os.fstat(descriptor).st_size - LOG_TAIL)
            return os.pread(descriptor, LOG_TAIL, start).decode(errors="replace")
        except (ValueError, OSError):  # stop() in another thread has closed the log
            return ""

    def answers(self, models: Sequence[str]) -> bool:
        """Return whether these models are ready and the server gives its metrics."""
        ready = all(_get(self.endpoints.http, f"/v2/models/{model}/ready") for model in models)
        return ready and _get(self.endpoints.metrics, "/metrics")

    def control(self, model: str, what: str) -> None:
        """Load or unload a model (`what`: "load" or "unload"). Raise TritonError, with its reason, if that fails."""
        from http.client import HTTPConnection, HTTPException  # imported only here, because no start needs it

        try:
            with self.endpoints.http.connect(CONTROL_SECONDS) as http_socket:
                connection = HTTPConnection(LOOPBACK)
                connection.sock = http_socket
                connection.request("POST", f"/v2/repository/models/{model}/{what}", body="{}")
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
        except (OSError, HTTPException) as error:
            raise TritonError(f"Triton did not {what} {model}: {error or type(error).__name__}") from error
        if answer.status != HTTP_OK:
            with suppress(ValueError, KeyError, TypeError):
                text = str(json.loads(text)["error"])
            raise TritonError(f"Triton could not {what} {model}: {text}")

    def kill(self) -> None:
        """Kill the server, even if it is stopped (SIGSTOP). Its guard then removes its files and processes."""
        self.guard.send_signal(signal.SIGCONT)  # a stopped guard could not clean up
        # The guard ends right after the server. So while the guard runs, the number is still the server's.
        with suppress(TritonError, OSError):
            if self.guard.poll() is None:
                os.kill(self.pid(), signal.SIGKILL)

    def close(self, grace: float) -> None:
        """End the server within the grace and the time that its guard needs, and remove all of its files."""
        assert self.guard.stdin is not None
        assert self.guard.stdout is not None
        self.guard.stdin.close()
        self.guard.send_signal(signal.SIGCONT)  # a stopped guard could not clean up
        try:
            self.guard.wait(grace + STOP_MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.guard.kill()  # the server's processes die with it
            self.guard.wait()
        if self.guard.returncode < 0:  # the guard was killed before it could wait for the server's processes
            self._wait_for_processes()
        self.guard.stdout.close()
        self.log.close()
        if self._process is not None:
            os.close(self._process)
            self._process = None
        server_folder.remove(self.folder)  # the guard has done this, unless it was killed

    def _wait_for_processes(self) -> None:
        """Wait for the end of the guard's standard output, which all processes of the server keep open."""
        assert self.guard.stdout is not None
        output, deadline = self.guard.stdout.fileno(), time.monotonic() + END_SECONDS
        while _is_readable(output, deadline - time.monotonic()) and os.read(output, 64):
            pass


def loopback_ports() -> Endpoints:
    """Return endpoints at ports that are free at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        grpc, http, metrics = (Endpoint(LOOPBACK, each.getsockname()[1]) for each in sockets)
    return Endpoints(grpc, http, metrics)


def sockets_in(folder: Path) -> Endpoints | None:
    """Return endpoints at sockets that only our user can open; None if the folder's path is too long for sockets."""
    # Triton requires ports even for sockets. The port of gRPC becomes a part of the name.
    grpc, http, metrics = (
        Endpoint(f"{UNIX}{folder}/{name}", port) for port, name in enumerate(("grpc", "http", "metrics"), 1)
    )
    if max(len(os.fsencode(str(each))) - len(UNIX) for each in (grpc, http, metrics)) > LONGEST_SOCKET:
        return None
    return Endpoints(grpc, http, metrics)


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor is readable, and return whether it is. select() fails with thousands of descriptors."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _get(endpoint: Endpoint, path: str) -> bool:
    """Return whether this HTTP server answers 200. The import of an HTTP library would delay every start."""
    try:
        with endpoint.connect(ANSWER_SECONDS) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
            return connection.recv(64).split()[1:2] == [b"200"]
    except OSError:
        return False


def failure_in(log: str) -> str:
    """Return the lines of the server's log that say why it failed."""
    end = log.rpartition("\nerror: ")[2].rstrip().rstrip(";").rstrip() if "\nerror: " in log else ""
    if "load failed for model" in end:  # this line has the model's traceback, so earlier lines add nothing
        return f"{end} {MODEL_KILLED}" if end.endswith(NOT_HEALTHY) else end
    lines: list[str] = []
    for line in log.splitlines():
        parts = LOG_LINE.match(line)
        error = parts is not None and (parts["level"] == "E" or parts["library"])
        if (error or any(words in line for words in NEVER_READY)) and HARMLESS not in line:
            lines.append(parts["words"].strip('" ').replace("\\n", "\n") if parts else line)
    if end:
        lines.append(end)
    if not lines:  # then the last lines, without tables, say most
        lines = [line for line in log.splitlines() if line and line[0] not in "+|"][-LAST_LINES:]
    return "\n".join(dict.fromkeys(lines)) or "it logged nothing"
