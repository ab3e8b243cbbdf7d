"""Tritons, bridges, a balancer and a store, each in a network namespace of its own, for a test.

What has ended is started again, as Kubernetes or systemd would do. The bridges have clocks that differ by up to an
hour. A name server of the test tells the balancer where they are.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from http.client import HTTPException
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from streamer.base.machine import descendants
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.triton.server_process import Endpoint, Endpoints
from streamer.testing.exact_service import add_exact_model
from workshop.soak.network import Network, Node
from workshop.soak.service_under_test import (
    STOP_LIMIT_S,
    Metrics,
    Remains,
    TritonUnderTest,
    complaints_in,
    descriptors,
    keep_running,
    memory_of,
    metrics_at,
    owed,
    pid_of,
    send_signal,
)
from workshop.soak.session_plan import SHORT_RESUME_S, SHORT_START_S
from workshop.soak.switch import Way
from workshop.watched_process import wait_ready

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, NAME_SERVER = "10.99.0.1", "10.99.0.53"
BALANCER, BRIDGE, TRITON, STORE = "10.99.1.{}", "10.99.2.{}", "10.99.3.{}", "10.99.4.{}"
BRIDGE_PORT, STORE_PORT, NAME_PORT = 8080, 6379, 53
TRITON_PORTS = (8001, 8000, 8002)  # gRPC, HTTP, metrics
# Clients reach the balancer at addresses of its own for each of these links, so that one of them can be bad alone.
CLIENT_LINKS = 6
# How clients reach the service: like somebody in the same country.
FAR = Way(delay_s=0.01, jitter_s=0.005, loss=0.0005)
SECOND = f"{MODEL}_2"  # the model to which bridges roll, and back
DRAIN_S = 4.0
MOST_SHIFT_S = 3600.0
START_LIMIT_S = 60.0
LOOK_S, ANSWER_S = 0.1, 3.0
STARTED_AGAIN_S = (0.2, 2.0)
# A bridge cannot tell a silent client from one whose link is cut. TCP waits longer and longer before it sends again, so
# after a cut of seconds it may be silent for twice as long.
IDLE_S = 30.0
# Namespaces do not have clocks of their own for the time of day. So the service gets another one, and nothing else in
# its process does: gRPC compares its deadlines with the clock of the machine.
CLOCK = """
import builtins, runpy, time, types

clock = types.ModuleType("time")
vars(clock).update(vars(time))
clock.time = lambda: time.time() + {shift}
load = builtins.__import__

def load_for(name, globals=None, *rest, **others):
    of_service = name == "time" and str((globals or {{}}).get("__name__")).startswith("streamer.")
    return clock if of_service else load(name, globals, *rest, **others)

builtins.__import__ = load_for
runpy.run_module("streamer", run_name="__main__", alter_sys=True)
"""
LOOKED_UP = "resolvers names resolve-prefer ipv4 init-addr none"
SECRET = "the bridges of this test sign with it, and nobody else\n"


class Supervised:
    """A program in a namespace that is started again when it has ended."""

    def __init__(
        self,
        node: Node,
        command: Callable[[], Sequence[str]],
        log: Path,
        rng: random.Random,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`command` is asked at each start."""
        self.node = node
        self.log = log
        self.starts = 0
        self._command, self._rng = command, rng
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._over = False  # it is not started any more

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its present process, or its last one."""
        assert self._process is not None
        return self._process

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def pids(self) -> list[int]:
        """Its processes; none if it has ended."""
        return [self.process.pid, *(each.pid for each in descendants(self.process.pid))] if self.running else []

    def start(self) -> None:
        """Start it, unless it was stopped for good."""
        with self._lock, self.log.open("ab") as log:
            if self._over:
                return
            self.starts += 1
            self._process = self.node.run(
                lambda: subprocess.Popen(self._command(), stdout=log, stderr=log, env=self._environment)
            )

    async def keep(self) -> None:
        """Start it again whenever it has ended, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not self.running:
                await asyncio.sleep(self._rng.uniform(*STARTED_AGAIN_S))
                await asyncio.to_thread(self.start)

    def stop(self) -> int | None:
        """End it in order and for good, and return its status; None if it had to be killed."""
        with self._lock:
            self._over = True
        if self._process is None:
            return 0
        for pid in self.pids:
            send_signal(pid, signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None


class _TritonInNode(TritonServer):
    """A Triton that listens in a namespace, at the usual ports."""

    def __init__(self, node: Node, repository: Path, slots: int, log: Path) -> None:
        endpoints = Endpoints(*(Endpoint(node.address, port) for port in TRITON_PORTS))
        super().__init__(
            repository, models=(MODEL, SECOND), instances=1, slots=slots, endpoints=endpoints, log=log, grace=1.0
        )
        self._node = node

    def start(self) -> None:
        """Start it in the namespace, and return at once."""
        self._node.run(super().start)

    def wait_ready(self) -> None:
        """Wait in the namespace, because it may have to start again."""
        self._node.run(super().wait_ready)


class NetworkUnderTest:
    """A context manager that runs all of it. At the end, `left` gets a sentence for each thing that is left."""

    def __init__(
        self, models: Path, logs: Path, *, tritons: int, bridges: int, slots: int, store: bool, rng: random.Random
    ) -> None:
        """`models`: a folder for the repository; `slots`: of each Triton; `store`: whether the bridges have one."""
        self.url = ""
        self.alive = True
        self.network = Network()
        self.tritons: list[TritonUnderTest] = []
        self.bridges: list[Supervised] = []
        self.stores: list[Supervised] = []
        self.links = [f"clients {number + 1}" for number in range(CLIENT_LINKS)]
        self.left: list[str] = []
        self.restarts = 0
        self.model = MODEL  # that the bridges serve
        self.shifts_s: list[float] = []  # by how much the clocks of the bridges were wrong
        self._repository, self._logs, self._rng = models, logs, rng
        self._slots, self._with_store = slots, store
        self._count = tritons, bridges
        self._servers: list[TritonServer] = []
        self._keeping: list[asyncio.Task[None]] = []
        self._names: asyncio.DatagramTransport | None = None
        self._balancer: Supervised | None = None
        self._far = ExitStack()

    async def __aenter__(self) -> NetworkUnderTest:
        for model in (MODEL, SECOND):
            add_exact_model(self._repository, model)
        self.network.__enter__()
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
        for bridge in self.bridges:
            if status := await asyncio.to_thread(bridge.stop):
                self.left.append(f"{bridge.node.name} ended with status {status}")
            elif status is None:
                self.left.append(f"{bridge.node.name} did not end within {STOP_LIMIT_S:g} s")
        for server in self._servers:
            await asyncio.to_thread(server.stop)
        for other in (*self.stores, *([self._balancer] if self._balancer is not None else [])):
            await asyncio.to_thread(other.stop)
        if self._names is not None:
            self._names.close()
        self._far.close()
        self.network.__exit__()
        self.left += remains.left()

    @property
    def balancer(self) -> Supervised:
        """The balancer."""
        assert self._balancer is not None
        return self._balancer

    @property
    def master(self) -> Supervised:
        """The store that has the address which the bridges know."""
        return next(store for store in self.stores if STORE.format(1) in store.node.addresses)

    def processes(self) -> dict[tuple[str, int], float]:
        """Return the memory of each process, by its kind and id."""
        return memory_of([bridge.process.pid for bridge in self.bridges if bridge.running], self.tritons)

    def descriptors(self) -> int:
        """Return the number of files and sockets that the bridges have open."""
        count = 0
        for bridge in self.bridges:
            with suppress(OSError):  # it has just ended
                count += descriptors(bridge.process.pid)
        return count

    async def metrics(self) -> Metrics:
        """Return the sums over the bridges. Raise OSError if one does not answer."""
        sums: Metrics = {}
        for bridge in self.bridges:
            page = f"http://{bridge.node.address}:{BRIDGE_PORT}/metrics"
            for name, value in (await asyncio.to_thread(metrics_at, page)).items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    async def owed(self) -> dict[str, float]:
        """Return the amounts of resources that belong to sessions. All must be 0 when no session runs."""
        return await owed(self.tritons, self.metrics)

    def complaints(self) -> Iterator[str]:
        """Yield the errors in the logs of the bridges. A roll may be refused while a Triton is away."""
        for bridge in self.bridges:
            yield from (line for line in complaints_in(bridge.log) if " not rolled " not in line)

    def control(self, bridge: Supervised) -> Path:
        """Return the socket for the operator of a bridge."""
        return self._repository / f"{bridge.node.name}.sock"

    def fail_over(self) -> None:
        """Kill the store and let its replica take its place and its address. The former one returns as a replica."""
        former = self.master
        successor = next(store for store in self.stores if store is not former)
        for pid in former.pids:
            send_signal(pid, signal.SIGKILL)
        former.process.wait()
        self.network.move(STORE.format(1), former.node, successor.node)
        with suppress(OSError), socket.create_connection((STORE.format(1), STORE_PORT), 5) as connection:
            connection.sendall(b"REPLICAOF NO ONE\r\n")
            connection.settimeout(5)
            connection.recv(64)

    async def _enter(self) -> None:
        tritons, bridges = self._count
        self.network.add_here("clients", CLIENTS, NAME_SERVER)
        await self._answer_names()
        await asyncio.gather(*(self._start_triton(number + 1) for number in range(tritons)))
        self.tritons.sort(key=lambda triton: triton.name)
        if self._with_store:
            await self._start_stores()
        for number in range(bridges):
            self._add_bridge(number + 1)
        urls = await asyncio.gather(*(asyncio.to_thread(self._start_bridge, bridge) for bridge in self.bridges))
        await self._start_balancer()
        front = BALANCER.format(11)
        self.url = urlsplit(urls[0])._replace(netloc=front).geturl()
        await self._until_it_serves(f"http://{front}/readyz")
        self._keeping += [asyncio.create_task(each.keep()) for each in (*self.bridges, *self.stores, self.balancer)]
        for link in self.links:
            self._far.enter_context(self.network.bad(link, FAR))

    def url_of(self, number: int) -> str:
        """Return the address for the client with this number."""
        return self.url.replace(BALANCER.format(11), BALANCER.format(11 + number % CLIENT_LINKS))

    async def _start_triton(self, number: int) -> None:
        node = self.network.add(Node(f"Triton{number}", TRITON.format(number)))
        server = _TritonInNode(node, self._repository, self._slots, self._logs / f"{node.name}.log")
        self._servers.append(server)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(server.wait_ready)
        triton = TritonUnderTest(node.name, lambda: pid_of(server))
        self.tritons.append(triton)
        # Either model will do: the bridges unload the one from which they have rolled.
        keeping = keep_running(server, triton, "/v2/health/live", self._rng, self._note_restart)
        self._keeping.append(asyncio.create_task(keeping))

    def _note_restart(self) -> None:
        self.restarts += 1

    def _add_bridge(self, number: int) -> None:
        node = self.network.add(Node(f"bridge{number}", BRIDGE.format(number)))
        log = self._logs / f"{node.name}.log"
        log.unlink(missing_ok=True)
        self.bridges.append(Supervised(node, lambda: self._serve(bridge), log, self._rng, {"OMP_NUM_THREADS": "1"}))
        bridge = self.bridges[-1]

    def _serve(self, bridge: Supervised) -> list[str]:
        shift = self._rng.uniform(-MOST_SHIFT_S, MOST_SHIFT_S)
        self.shifts_s.append(round(shift, 1))
        tritons = ",".join(f"{TRITON.format(number + 1)}:{TRITON_PORTS[0]}" for number in range(self._count[0]))
        settings: dict[str, object] = {
            "host": "0.0.0.0",
            "port": BRIDGE_PORT,
            "triton": tritons,
            "model": self.model,
            "sessions": self._slots,
            "control": self.control(bridge),
            "trust-proxy": BALANCER.format(1),
            "drain-limit": DRAIN_S,
            "idle-limit": IDLE_S,
            "start-limit": SHORT_START_S,
            "resume-limit": SHORT_RESUME_S,
        }
        if self._with_store:
            secret = self._repository / "secret"
            secret.write_text(SECRET)
            settings |= {"store": f"redis://{STORE.format(1)}:{STORE_PORT}", "store-secret": secret}
        flags = [f"--{name}={value}" for name, value in settings.items()]
        return [sys.executable, "-c", CLOCK.format(shift=shift), "serve", "--open", *flags]

    def _start_bridge(self, bridge: Supervised) -> str:
        bridge.start()
        with bridge.log.open() as log:
            return wait_ready(bridge.process, log)

    async def _start_balancer(self) -> None:
        own = [BALANCER.format(11 + number) for number in range(CLIENT_LINKS)]
        node = self.network.add(Node("balancer", BALANCER.format(1), *own), dict(zip(own, self.links, strict=True)))
        settings = self._logs / "haproxy.cfg"
        settings.write_text(self._balancer_settings())
        program, environment = _unpacked("haproxy", "usr/sbin/haproxy")
        command = [program, "-W", "-db", "-f", str(settings)]
        self._balancer = Supervised(node, lambda: command, self._logs / "balancer.log", self._rng, environment)
        await asyncio.to_thread(self._balancer.start)

    def _balancer_settings(self) -> str:
        """Return the shipped configuration, without TLS and users, that asks the name server of the test."""
        text = (ROOT / "deploy/proxies/haproxy.cfg").read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if "bind :::443" not in line and not line.startswith("#")]
        text = "\n".join(lines) + "\n"
        server = "    server bridge1 127.0.0.1:8080"
        servers = "\n".join(
            f"    server {bridge.node.name} {bridge.node.name}.test:{BRIDGE_PORT} {LOOKED_UP}"
            for bridge in self.bridges
        )
        changes = {
            "    user haproxy\n": "",
            "    group haproxy\n": "",
            "    chroot /var/lib/haproxy\n": "",
            "hard-stop-after 60s": "hard-stop-after 4s",
            "bind :443 ssl crt /etc/haproxy/tls.pem alpn h2,http/1.1": "bind :80",
            server: f"{servers}  #",
        }
        for former, new in changes.items():
            if former not in text:
                raise ValueError(f"deploy/proxies/haproxy.cfg has no {former.strip()!r}")
            text = text.replace(former, new)
        times = "timeout resolve 1s\n    timeout retry 1s\n    hold valid 1s\n    hold obsolete 1s"
        return f"{text}\nresolvers names\n    nameserver test {NAME_SERVER}:{NAME_PORT}\n    {times}\n"

    async def _start_stores(self) -> None:
        for number in (1, 2):
            own = STORE.format(10 + number)
            node = Node(f"store{number}", own, *([STORE.format(1)] if number == 1 else []))
            self.network.add(node)
            self.stores.append(self._store(node))
        for store in self.stores:
            await asyncio.to_thread(store.start)

    def _store(self, node: Node) -> Supervised:
        program, environment = _unpacked("redis-server", "usr/bin/redis-server")
        kept = ["--save", "", "--appendonly", "no", "--rdbcompression", "no", "--dir", str(self._logs)]

        def command() -> list[str]:
            replica = [] if STORE.format(1) in node.addresses else ["--replicaof", f"{STORE.format(1)} {STORE_PORT}"]
            return [program, "--port", str(STORE_PORT), "--protected-mode", "no", *kept, *replica]

        return Supervised(node, command, self._logs / f"{node.name}.log", self._rng, environment)

    async def _answer_names(self) -> None:
        loop = asyncio.get_running_loop()
        self._names, _ = await loop.create_datagram_endpoint(
            lambda: _NameServer(self._address_of), local_addr=(NAME_SERVER, NAME_PORT)
        )

    def _address_of(self, name: str) -> str | None:
        node = self.network.nodes.get(name.removesuffix(".test"))
        return node.address if node is not None else None

    async def _until_it_serves(self, page: str) -> None:
        until = time.monotonic() + START_LIMIT_S
        while not await asyncio.to_thread(answers, page):
            if time.monotonic() > until or not self.balancer.running:
                raise TritonError(f"the balancer does not serve: {self.balancer.log.read_text()[-500:]}")
            await asyncio.sleep(LOOK_S)


class _NameServer(asyncio.DatagramProtocol):
    """Answers questions for the address of a name, and says of everything else that there is nothing."""

    _ADDRESS, _INTERNET = b"\x00\x01", b"\x00\x01"

    def __init__(self, address_of: Callable[[str], str | None]) -> None:
        self._address_of = address_of
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer the first question."""
        assert self._transport is not None
        with suppress(IndexError, UnicodeDecodeError):
            labels, place = [], 12
            while length := data[place]:
                labels.append(data[place + 1 : place + 1 + length].decode())
                place += length + 1
            question = data[12 : place + 5]
            address = self._address_of(".".join(labels).lower())
            records = b""
            if address is not None and question[-4:-2] == self._ADDRESS:
                life = (1).to_bytes(4, "big")
                records = b"\xc0\x0c" + self._ADDRESS + self._INTERNET + life + b"\x00\x04" + socket.inet_aton(address)
            flags = b"\x84\x00" if address is not None else b"\x84\x03"  # there is no such name
            counts = b"\x00\x01" + (b"\x00\x01" if records else b"\x00\x00") + bytes(4)
            self._transport.sendto(data[:2] + flags + counts + question + records, addr)


def answers(page: str) -> bool:
    """Return whether there is an answer with status 200 at this address."""
    try:
        with urllib.request.urlopen(page, timeout=ANSWER_S):
            return True
    except (OSError, HTTPException):
        return False


def _unpacked(name: str, path: str) -> tuple[str, dict[str, str]]:
    """Return a program, and its environment: installed, or unpacked by scripts/system_packages."""
    folder = ROOT / "build" / name.partition("-")[0]
    if program := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"):
        return program, {}
    if not (folder / path).exists():
        raise FileNotFoundError(f"there is no {name}: type `make system`")
    return str(folder / path), {"LD_LIBRARY_PATH": ":".join(map(str, folder.glob("usr/lib/*")))}
