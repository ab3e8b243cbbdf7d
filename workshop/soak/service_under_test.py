"""Runs the service under test: a real `serve` in a process of its own, with one or several real Tritons.

External Tritons are reached through proxies whose connections can be cut. They are restarted when they have ended, as
an operator would do. The service itself starts and restarts an embedded Triton.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from streamer.base.limits import OFF, READER
from streamer.base.machine import command, descendants
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.triton.server_process import Endpoint
from streamer.commands.traffic.processes import memory_mb, program
from streamer.models.readers import AUTO
from streamer.testing.faulty_proxy import FaultyProxy
from workshop.soak.session_plan import SHORT_IDLE_S, SHORT_RESUME_S, SHORT_START_S
from workshop.watched_process import wait_ready

SERVER, STUB = "tritonserver", "triton_python_backend_stub"
SHARED_MEMORY = Path("/dev/shm")
# A Triton that is not ready for this long, although no fault stops it, is restarted, as an operator would do.
ILL_LIMIT_S = 20.0
STOP_LIMIT_S = 40.0
WATCHED_EVERY_S = 1.0
ASK_LIMIT_S = 10.0
Metrics = dict[str, float]
# Resources that belong to sessions: the name used here, and the metric of the service.
OWED = {
    "sessions": "streamer_sessions",
    "reservations": "streamer_sequences",
    "connections": "streamer_sessions_by_state{",
    "bytes queued": "streamer_backlog_bytes",
    "requests": "streamer_computing",
    "messages": "streamer_outgoing_messages",
}


@dataclass
class TritonUnderTest:
    """A Triton behind the service, whichever process runs it at present."""

    name: str
    find: Callable[[], int | None]
    proxy: FaultyProxy | None = None
    paused: bool = False  # a fault has stopped it for the moment
    regions: set[str] = field(default_factory=set)  # the names of its shared memory

    @property
    def pid(self) -> int | None:
        """The id of its tritonserver process; None if there is none."""
        pid = self.find()
        if pid is not None:
            self.regions.update(_options(pid, "shm-region-prefix-name="))
        return pid

    @property
    def stubs(self) -> list[int]:
        """The ids of the processes of its model."""
        return [pid for pid in self._all_stubs if not _is_reader(pid)]

    @property
    def readers(self) -> list[int]:
        """The ids of the processes of its reader."""
        return [pid for pid in self._all_stubs if _is_reader(pid)]

    @property
    def _all_stubs(self) -> list[int]:
        pid = self.pid
        return [] if pid is None else [each.pid for each in descendants(pid) if program(each.pid) == STUB]

    def endpoint(self, kind: str) -> Endpoint | None:
        """Return its address for grpc, http or metrics (a loopback port or a socket); None if it does not run."""
        pid = self.pid
        parts = [] if pid is None else _options(pid, f"--{kind}-address=") + _options(pid, f"--{kind}-port=")
        return Endpoint(parts[0], int(parts[1])) if len(parts) == 2 else None


def with_webhooks(folder: Path) -> tuple[object, ...]:
    """Return the settings for calls without a signature, and for webhooks at any address. The secret is in a file."""
    secrets = folder / "webhook-secrets"
    secrets.write_text("the-secret-of-a-test\n")
    return "--twilio-unsigned", "--webhooks", "any", "--webhook-secrets", secrets


class ServiceUnderTest:
    """A context manager that runs the service. At the end, `left` gets a sentence for each thing that is left."""

    def __init__(
        self,
        repository: Path,
        logs: Path,
        *,
        tritons: int,
        slots: int,
        rng: random.Random,
        settings: Sequence[object] = (),
        model: str = MODEL,
        reader: Path | None = None,
    ) -> None:
        """`tritons`: the number of external Tritons; 0 for an embedded one, with `slots` in each of two instances.

        `logs`: a folder for the logs; `settings`: further arguments of `serve`; `model`: the model of the repository.
        `reader`: the folder with the weights of the reader; an embedded Triton chooses one itself.
        """
        self.url = ""
        self.grpc_port = 0  # 0: it does not speak gRPC
        self.tritons: list[TritonUnderTest] = []
        self.left: list[str] = []  # a sentence for each thing that was still there at the end
        self.restarts = 0  # how often external Tritons were restarted
        self.log = logs / "service.log"
        self._repository, self._logs, self._slots, self._rng = repository, logs, slots, rng
        self._number = tritons
        self._settings = settings
        self.model = model
        self.reader = reader
        self._servers: list[TritonServer] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._bridge: subprocess.Popen[bytes] | None = None

    @property
    def bridge(self) -> int:
        """The id of the process of the service."""
        assert self._bridge is not None
        return self._bridge.pid

    @property
    def alive(self) -> bool:
        """Whether the service runs."""
        return self._bridge is not None and self._bridge.poll() is None

    async def __aenter__(self) -> ServiceUnderTest:
        try:
            await self._enter()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *details: object) -> None:
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        remains = Remains(self.tritons)
        if self._bridge is not None:
            self._bridge.terminate()
            try:
                status = await asyncio.to_thread(self._bridge.wait, STOP_LIMIT_S)
                self.left += [f"the service ended with status {status}"] if status else []
            except subprocess.TimeoutExpired:
                self.left.append(f"the service did not end within {STOP_LIMIT_S:g} s")
                self._bridge.kill()
                self._bridge.wait()
        for server in self._servers:
            await asyncio.to_thread(server.stop)
        for triton in self.tritons:
            if triton.proxy is not None:
                await triton.proxy.close()
        self.left += remains.left()

    def processes(self) -> dict[tuple[str, int], float]:
        """Return the memory of each process, by its kind and id."""
        return memory_of([self.bridge], self.tritons)

    def descriptors(self) -> int:
        """Return the number of files and sockets that the service has open."""
        return descriptors(self.bridge)

    async def metrics(self) -> Metrics:
        """Return the metrics of the service, by name and labels."""
        page = "http" + self.url.removeprefix("ws").rpartition("/v1/")[0] + "/metrics"
        return await asyncio.to_thread(metrics_at, page)

    async def owed(self) -> dict[str, float]:
        """Return the amounts of resources that belong to sessions. All must be 0 when no session runs."""
        return await owed(self.tritons, self.metrics)

    async def slots_live(self) -> float:
        """Return the number of slots that streams hold in the models."""
        return await slots_live(self.tritons)

    def complaints(self) -> Iterator[str]:
        """Yield the errors in the log of the service."""
        return complaints_in(self.log)

    async def _enter(self) -> None:
        limits = ["--idle-limit", SHORT_IDLE_S, "--start-limit", SHORT_START_S, "--resume-limit", SHORT_RESUME_S]
        serve = ["serve", "--port", "0", *map(str, (*limits, *self._settings))]
        serve += ["--model", self.model] if self.model != MODEL else []
        if self._number:
            for number in range(self._number):
                await self._start(f"Triton {number + 1}")
            addresses = ",".join(triton.proxy.address for triton in self.tritons if triton.proxy is not None)
            program_of = [sys.executable, "-m", "streamer", *serve, "--triton", addresses]
        else:
            size = ["--instances", "2", "--slots", str(self._slots), "--reader", AUTO if self.reader else OFF]
            program_of = [sys.executable, "-m", "streamer", *serve, "--repository", str(self._repository), *size]
            self.tritons.append(TritonUnderTest("embedded Triton", self._embedded))
        self.url = await asyncio.to_thread(self._serve, program_of)
        if told := re.search(r"gRPC is spoken at port (\d+)", self.log.read_text(errors="replace")):
            self.grpc_port = int(told[1])

    def _serve(self, program_of: Sequence[str]) -> str:
        with self.log.open("w+") as log:
            self._bridge = subprocess.Popen(program_of, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
            return wait_ready(self._bridge, log)

    async def _start(self, name: str) -> None:
        log = self._logs / f"{name}.log"
        server = TritonServer(
            self._repository, models=[self.model], instances=1, slots=self._slots, reader=self.reader, log=log
        )
        self._servers.append(server)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.wait_ready)
        proxy = FaultyProxy(lambda: _address(server))
        await proxy.open()
        triton = TritonUnderTest(name, lambda: pid_of(server), proxy)
        self.tritons.append(triton)
        keeping = keep_running(server, triton, f"/v2/models/{self.model}/ready", self._rng, self._note_restart)
        self._keeping.append(asyncio.create_task(keeping))

    def _note_restart(self) -> None:
        self.restarts += 1

    def _embedded(self) -> int | None:
        if not self.alive:
            return None
        return next((each.pid for each in descendants(self.bridge) if program(each.pid) == SERVER), None)


# What a service and a network of several have in common.


async def keep_running(
    server: TritonServer, triton: TritonUnderTest, well: str, rng: random.Random, note: Callable[[], None]
) -> None:
    """Restart a Triton when it has ended or is not ready for a long time, as an operator would do.

    `well`: the path that answers while it is well; `note` is called at each restart.
    """
    well_at = time.monotonic()
    while True:
        await asyncio.sleep(WATCHED_EVERY_S)
        if triton.paused or (server.running and triton.stubs and await asyncio.to_thread(_answers, triton, well)):
            well_at = time.monotonic()
        if server.running and time.monotonic() - well_at < ILL_LIMIT_S:
            continue
        await asyncio.sleep(rng.uniform(0, 2))
        note()
        try:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            await asyncio.to_thread(server.wait_ready)
        except TritonError:
            continue  # a fault killed it during the start
        well_at = time.monotonic()


class Remains:
    """The processes and the shared memory of Tritons, of which nothing may be left after their end."""

    def __init__(self, tritons: Sequence[TritonUnderTest]) -> None:
        children = descendants(os.getpid())
        self._processes = {each.pid: name for each in children if (name := program(each.pid)) in (SERVER, STUB)}
        self._tritons = tritons
        for triton in tritons:
            _ = triton.pid  # notes its shared memory

    def left(self) -> Iterator[str]:
        """Yield a sentence for each that is still there."""
        for pid, name in self._processes.items():
            if program(pid) == name:
                yield f"process {pid} ({name}) still runs"
        prefixes = tuple(region for triton in self._tritons for region in triton.regions)
        for path in SHARED_MEMORY.iterdir():
            if prefixes and path.name.startswith(prefixes):
                yield f"shared memory {path.name} still exists"


def memory_of(bridges: Sequence[int], tritons: Sequence[TritonUnderTest]) -> dict[tuple[str, int], float]:
    """Return the memory of each process, by its kind and id."""
    memory = {}
    watched = [("bridge", pid) for pid in bridges]
    for triton in tritons:
        watched += [] if (pid := triton.pid) is None else [("Triton", pid)]
        watched += [("model", pid) for pid in triton.stubs] + [("reader", pid) for pid in triton.readers]
    for name, pid in watched:
        with suppress(OSError):  # it has just ended
            memory[name, pid] = memory_mb(pid)
    return memory


def descriptors(pid: int) -> int:
    """Return the number of files and sockets that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def owed(tritons: Sequence[TritonUnderTest], metrics_of: Callable[[], Awaitable[Metrics]]) -> dict[str, float]:
    """Return the amounts of resources that belong to sessions. All must be 0 when no session runs."""
    left = dict.fromkeys(("slots", *OWED), float("inf"))
    with suppress(OSError):  # a Triton may be restarting
        left["slots"] = await slots_live(tritons)
        metrics = await metrics_of()
        for name, metric in OWED.items():
            left[name] = sum(
                value for key, value in metrics.items() if key == metric or (metric[-1] == "{" and metric in key)
            )
    return left


async def slots_live(tritons: Sequence[TritonUnderTest]) -> float:
    """Return the number of slots that streams hold in the models."""
    live = 0.0
    for triton in tritons:
        endpoint = triton.endpoint("metrics")
        if endpoint is None:
            return float("inf")
        figures = _figures(await asyncio.to_thread(_get, endpoint, "/metrics"))
        live += sum(value for name, value in figures.items() if name.startswith("streamer_slots_live{"))
    return live


def complaints_in(log: Path) -> Iterator[str]:
    """Yield the errors in the log of a service."""
    for line in log.read_text(errors="replace").splitlines():
        if re.search(r"Z error |Traceback|never retrieved|never awaited", line):
            yield f"the service's log: {line[:300]}"


def pid_of(server: TritonServer) -> int | None:
    """Return the id of its process; None if it does not run."""
    try:
        return server.pid if server.running else None
    except TritonError:
        return None


def _address(server: TritonServer) -> str:
    try:
        return server.grpc_address
    except TritonError as error:
        raise ConnectionRefusedError from error


def _options(pid: int, name: str) -> list[str]:
    return [word.rpartition("=")[2] for word in command(pid) if name in word]


def _is_reader(pid: int) -> bool:
    return any(f"/{READER}/" in word for word in command(pid))


def _answers(triton: TritonUnderTest, path: str) -> bool:
    endpoint = triton.endpoint("http")
    if endpoint is None:
        return False
    try:
        _get(endpoint, path, 3.0)
    except OSError:
        return False
    return True


def metrics_at(page: str) -> Metrics:
    """Return the metrics at this address. Raise OSError."""
    with urllib.request.urlopen(page, timeout=ASK_LIMIT_S) as answer:
        return _figures(answer.read().decode())


def _get(endpoint: Endpoint, path: str, limit_s: float = ASK_LIMIT_S) -> str:
    """Return the answer of a Triton to a GET. Raises OSError."""
    with endpoint.connect(limit_s) as http_socket:
        connection = HTTPConnection("localhost")
        connection.sock = http_socket
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
        except HTTPException as error:
            raise OSError(str(error)) from error
    if answer.status != HTTPStatus.OK:
        raise OSError(f"status {answer.status}")
    return text


def _figures(exposition: str) -> Metrics:
    figures = {}
    for line in exposition.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            figures[name] = float(value)
    return figures


def failures_inside(metrics: Metrics) -> Metrics:
    """Return the unexpected failures in the service, by part; empty if there were none."""
    failures = {re.match(r'streamer_unexpected_failures_total{part="(\w+)"}', name): n for name, n in metrics.items()}
    return {match[1]: number for match, number in failures.items() if match and number}


def send_signal(pid: int | None, number: signal.Signals) -> bool:
    """Send a signal to a process. Returns whether it exists."""
    try:
        if pid is not None:
            os.kill(pid, number)
    except ProcessLookupError:
        return False
    return pid is not None
