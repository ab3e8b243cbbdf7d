"""Real proxies with the configurations of deploy/proxies: only addresses, paths, users and one limit are replaced."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.bridge.access.certificate_authority import Authority
from tests.project import ROOT

SHIPPED = ROOT / "deploy/proxies"
PATIENCE_S = 60.0
TRIES = 5
# scripts/system_packages unpacks them there where they are not installed.
UNPACKED = {"nginx": ROOT / "build/nginx", "haproxy": ROOT / "build/haproxy"}
RELOAD = {"nginx": signal.SIGHUP, "haproxy": signal.SIGUSR2}
# A reload ends old connections after this, instead of after a minute.
SHUTDOWN = "1s"
HAS_IPV6 = any(address[0] == socket.AF_INET6 for address in socket.getaddrinfo("localhost", 0))


class InUseError(Exception):
    """Another program took one of the ports first."""


@dataclass
class RunningProxy:
    """A proxy. `port` is its own, on loopback in both families."""

    kind: str
    port: int
    folder: Path
    command: list[str]
    environment: dict[str, str] | None
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> None:
        """Start it, and wait until it can be reached. InUseError if somebody else has its port."""
        with (self.folder / "said").open("w") as said:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=said, stderr=said, text=True)
        until = time.monotonic() + PATIENCE_S
        while not _listens(self.port):
            if self.process.poll() is not None:
                told = (self.folder / "said").read_text()
                if "in use" in told:
                    raise InUseError
                raise AssertionError(told)
            assert time.monotonic() < until
            time.sleep(0.02)

    def kill(self) -> None:
        """End all its processes at once."""
        workers = self.workers
        self.process.kill()  # first, because it replaces the others
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        self.process.wait(PATIENCE_S)
        psutil.wait_procs(workers, PATIENCE_S)

    @property
    def workers(self) -> set[psutil.Process]:
        """The processes that have the connections."""
        return set(psutil.Process(self.process.pid).children())

    @property
    def log(self) -> str:
        """What it has complained about."""
        return "".join(path.read_text() for path in (self.folder / "said", self.folder / "error.log") if path.exists())

    def reload(self) -> None:
        """Make it read its configuration again."""
        self.process.send_signal(RELOAD[self.kind])


@contextmanager
def before_bridges(
    name: str, folder: Path, bridges: Sequence[int], authority: Authority, changes: Mapping[str, str] | None = None
) -> Iterator[RunningProxy]:
    """Run a proxy with this configuration in front of bridges at these ports. Clients use TLS."""
    nginx = name.startswith("nginx")
    server = "server 127.0.0.1:8080;" if nginx else "server bridge1 127.0.0.1:8080"
    servers = [
        server.replace("8080", str(port)).replace("bridge1", f"bridge{number}")
        for number, port in enumerate(bridges, 1)
    ]
    both = folder / "both.pem"
    both.write_bytes(authority.chain.read_bytes() + authority.key.read_bytes())

    def addresses(port: int) -> dict[str, str]:
        own = {server: "\n".join(servers), **(changes or {})}
        if nginx:
            own |= {
                "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
                "/etc/nginx/tls/chain.pem": str(authority.chain),
                "/etc/nginx/tls/key.pem": str(authority.key),
                "/var/log/nginx/access.log": str(folder / "access.log"),
            }
            return own | ({"listen [::]:443 ssl": f"listen [::1]:{port} ssl"} if HAS_IPV6 else {})
        own["bind :443"] = f"bind 127.0.0.1:{port}"
        if "pass-through" not in name:
            own["/etc/haproxy/tls.pem"] = str(both)
        return own | ({"bind :::443 v6only": f"bind ::1:{port}"} if HAS_IPV6 else {})

    with _running(name, folder, addresses) as proxy:
        yield proxy


@contextmanager
def before_triton(name: str, folder: Path, triton: str) -> Iterator[RunningProxy]:
    """Run a proxy with this configuration in front of a Triton."""
    target = "grpc://127.0.0.1:8001" if name.startswith("nginx") else "server triton1 127.0.0.1:8001"
    changed = {target: target.replace("127.0.0.1:8001", triton)}
    with _running(name, folder, lambda port: {**changed, "127.0.0.1:18001": f"127.0.0.1:{port}"}) as proxy:
        yield proxy


def shipped(name: str, changes: Mapping[str, str]) -> str:
    """A configuration of the repository with these texts replaced. Each of them must be in it, outside of comments."""
    lines = (SHIPPED / name).read_text(encoding="utf-8").splitlines()
    unusable = "::443" if not HAS_IPV6 else "\n"
    text = "".join(f"{line}\n" for line in lines if not line.strip().startswith("#") and unusable not in line)
    for former, new in changes.items():
        assert former in text, former
        text = text.replace(former, new)
    return text


@contextmanager
def _running(name: str, folder: Path, addresses: Callable[[int], dict[str, str]]) -> Iterator[RunningProxy]:
    kind = name.partition(".")[0].partition("-")[0]
    with ExitStack() as stack:
        for _ in range(TRIES):
            port = _free_port()
            settings = shipped(name, _around(kind, name, folder) | addresses(port))
            (folder / name).write_text(settings, encoding="utf-8")
            with suppress(InUseError):
                yield stack.enter_context(_started(kind, name, folder, port))
                return
        raise AssertionError("other programs took all these ports")


def _around(kind: str, name: str, folder: Path) -> dict[str, str]:
    """What a proxy of a test must not have: users of the system, and its folders."""
    if kind == "haproxy":
        users = {f"    {line}\n": "" for line in ("user haproxy", "group haproxy", "chroot /var/lib/haproxy")}
        return users | {"hard-stop-after 60s": f"hard-stop-after {SHUTDOWN}"}
    temporary = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    paths = "".join(f"    {path}_temp_path {folder}/{path};\n" for path in temporary)
    log, pid = ("triton-error", "nginx-triton") if "triton" in name else ("error", "nginx")
    return {
        "user www-data;\n": "",
        "worker_processes auto": "worker_processes 1",
        f"/run/{pid}.pid": str(folder / "pid"),
        f"/var/log/nginx/{log}.log": str(folder / "error.log"),
        "worker_shutdown_timeout 60s": f"worker_shutdown_timeout {SHUTDOWN}",
        "http {\n": "http {\n" + paths,
    }


@contextmanager
def _started(kind: str, name: str, folder: Path, port: int) -> Iterator[RunningProxy]:
    program, environment = program_of(kind)
    if kind == "nginx":
        command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-g", "daemon off;"]
        command += ["-c", str(folder / name)]
    else:
        command = [program, "-W", "-db", "-f", str(folder / name)]
    proxy = RunningProxy(kind, port, folder, command, environment)
    try:
        proxy.start()
        yield proxy
    finally:
        proxy.process.terminate()
        proxy.process.wait(PATIENCE_S)


def program_of(kind: str) -> tuple[str, dict[str, str] | None]:
    """The program of a proxy, installed or unpacked, and its environment."""
    program = shutil.which(kind, path=f"{os.environ['PATH']}:/usr/sbin") or str(UNPACKED[kind] / "usr/sbin" / kind)
    libraries = ":".join(map(str, UNPACKED[kind].glob("usr/lib/*")))
    return program, {**os.environ, "LD_LIBRARY_PATH": libraries} if program.startswith(str(ROOT)) else None


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
