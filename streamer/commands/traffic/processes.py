"""The processes behind a service on this machine: which they are, and what they use. And what its GPUs do."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.base.machine import command, descendants, find_process, processes
from streamer.commands.traffic.results import CLIENTS, COMMAND, Graphics, Work

BRIDGE: Final = "bridge"
OTHERS: Final = "others"
TRITON_PROGRAM: Final = "tritonserver"
# The programs below the bridge, and their names in reports. The rest are others: the guard of Triton, and decoders.
NAMES: Final[Mapping[str, str]] = {TRITON_PROGRAM: "tritonserver", "triton_python_backend_stub": "model"}
WORKER_MODULE: Final = "streamer.commands.workers"  # in the command of a worker
UNIX: Final = "unix:"
MEGABYTE: Final = 1024  # kilobytes of /proc
_LISTENS: Final = "0A"
_GPU_LIMIT_S: Final = 5.0


@dataclass(frozen=True)
class Use:
    """What the processes of one name have used so far, and the memory that they have now."""

    cpu_s: float = 0.0
    memory_mb: float = 0.0
    processes: int = 0


class Processes:
    """The processes of a service, of its clients, and this one. Empty where the system does not tell about them."""

    def __init__(self, service: int | None, clients: Iterable[int], own: int, name: str = BRIDGE) -> None:
        """`service`: the process of the service; None if it is on another machine. `name`: how a report calls it."""
        self._service = service
        self._name = name
        self._clients = tuple(clients)
        self._own = own

    def use(self) -> dict[str, Use]:
        """Return what each kind of process has used so far."""
        uses: dict[str, Use] = defaultdict(Use)
        for name, pid in self._named():
            process = find_process(pid)
            if process is None:
                continue
            so_far = uses[name]
            uses[name] = Use(so_far.cpu_s + process.cpu_s, so_far.memory_mb + memory_mb(pid), so_far.processes + 1)
        return dict(uses)

    def metrics_address(self) -> str | None:
        """Return where the Triton of the service gives its metrics: a socket or host:port; None without one."""
        for name, pid in self._named():
            if name == NAMES[TRITON_PROGRAM]:
                told = dict(word.removeprefix("--").split("=", 1) for word in command(pid) if "=" in word)
                host, port = told.get("metrics-address", ""), told.get("metrics-port", "")
                return host.removeprefix(UNIX) if host.startswith(UNIX) else f"{host}:{port}"
        return None

    def _named(self) -> Iterator[tuple[str, int]]:
        if self._service is not None:
            yield self._name, self._service
            for each in descendants(self._service):
                yield kind_of(each.pid, self._name), each.pid
        for pid in self._clients:
            yield CLIENTS, pid
        yield COMMAND, self._own


def kind_of(pid: int, service: str = BRIDGE) -> str:
    """Return the name of a process below the service. Its workers count as the service itself, whose name is given."""
    return service if WORKER_MODULE in command(pid) else NAMES.get(program(pid), OTHERS)


def work_between(before: Mapping[str, Use], after: Mapping[str, Use], peaks: Mapping[str, float]) -> dict[str, Work]:
    """Return what was used between two moments. `peaks`: the most memory in between, by name."""
    return {
        name: Work(
            max(0.0, use.cpu_s - before.get(name, Use()).cpu_s),
            max(use.memory_mb, peaks.get(name, 0.0)),
            use.processes,
        )
        for name, use in after.items()
    }


def listener(port: int) -> int | None:
    """Return the process of this user that listens at a port of this machine; None if there is none to be seen."""
    sockets = {f"socket:[{number}]" for number in _listening_sockets(port)}
    if not sockets:
        return None
    for process in processes():
        with suppress(OSError):
            for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):
                    if str(descriptor.readlink()) in sockets:
                        return process.pid
    return None


def program(pid: int) -> str:
    """Return the name of the program that this process runs; empty if it has ended."""
    return (command(pid) or [""])[0].rpartition("/")[2]


def memory_mb(pid: int) -> float:
    """Return the memory of this process without mapped files; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return 0.0
    return sum(int(size) for size in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE)) / MEGABYTE


def _listening_sockets(port: int) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


# The GPUs, as nvidia-smi tells.


def graphics() -> Graphics | None:
    """Return what the GPUs do now: their mean load, and their memory together. None without a GPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    question = [tool, "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(question, capture_output=True, text=True, timeout=_GPU_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return read_graphics(told)


def read_graphics(text: str) -> Graphics | None:
    """Read the answer of nvidia-smi: a line for each GPU, with its load in percent and its memory in MiB."""
    loads, memories = [], []
    for line in text.splitlines():
        load, _, memory = line.partition(",")
        if load.strip().isdecimal() and memory.strip().isdecimal():
            loads.append(int(load) / 100)
            memories.append(float(memory))
    return Graphics(sum(loads) / len(loads), sum(memories)) if loads else None


def most_graphics(seen: Iterable[Graphics]) -> Graphics | None:
    """Return the mean load and the most memory of several moments."""
    looks = list(seen)
    if not looks:
        return None
    return Graphics(sum(each.busy for each in looks) / len(looks), max(each.memory_mb for each in looks))
