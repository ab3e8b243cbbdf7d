"""Starts the real Triton server of the wheel `nvidia-pytriton` on this machine, and always ends it.

    with TritonServer(asr_repository()) as server:
        ...  # server.grpc_address

All methods are synchronous, and any thread may call them. They need only the standard library, and protobuf to change a
model's configuration, so a command can call start() before it imports anything else. In asyncio, use
`asyncio.to_thread(server.wait_ready)`; stop() makes wait_ready() in another thread fail at once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from streamer.base.limits import READER, SPEAKERS
from streamer.base.package import PACKAGE
from streamer.base.torch_import import gpu_is_there
from streamer.bridge.triton import TritonError, server_folder
from streamer.bridge.triton.installation import Installation, find_tritonserver
from streamer.bridge.triton.repository import (
    asr_repository,
    link_model,
    link_reader,
    link_repository,
    make_resizable,
    models_in,
)
from streamer.bridge.triton.server_process import (
    NEVER_READY,
    Endpoints,
    ServerProcess,
    failure_in,
    loopback_ports,
    sockets_in,
)

__all__ = ["TritonError", "TritonServer", "find_tritonserver"]

START_ATTEMPTS = 3  # another process may take a port before the server uses it
POLL_SECONDS = 0.02
COPY = "models"  # the name of the copied repository in the server's folder
EXIT_MARGIN_SECONDS = 20
REGION_BYTES = 4 << 20  # the shared memory between the server and each instance; it grows for long requests
# The guard runs isolated and without site-packages, so that it starts at once and imports only our modules.
GUARD = (
    "-I",
    "-S",
    "-c",
    "import sys; sys.path.append(sys.argv.pop(1)); from streamer.bridge.triton.guard import main; sys.exit(main())",
    str(PACKAGE.parent),
)
TAKEN = "already in use"
_LOADED: Final = re.compile(r"[^\s\"]+ took [\d.]+ s to load: [^\n\"]*")


class TritonServer:
    """A Triton server that belongs to this process: it chooses its own addresses, and ends with the process."""

    def __init__(
        self,
        repository: Path,
        *,
        models: Sequence[str] | None = None,
        folders: Mapping[str, Path] | None = None,
        instances: int | None = None,
        slots: int | None = None,
        reader: Path | None = None,
        reads_alone: Collection[str] = (),
        speakers: bool = False,
        resizable: bool = False,
        private: bool = False,
        endpoints: Endpoints | None = None,
        ready_timeout: float = 60.0,
        grace: float = 5.0,
        log: Path | None = None,
    ) -> None:
        """Describe the server. It loads `models`, by default all of the repository.

        `folders` has the models that are not in the repository, by name. `instances` and `slots` (sequences in each
        instance) replace the numbers in the models' config.pbtxt. `reader`: the folder with the weights of a reader;
        the server then also has the model that reads ended segments with it. `reads_alone`: the models among `folders`
        whose streams have the words of that reader alone. `speakers`: it has the model that tells voices apart, too.
        `resizable`: the number of instances can change while the server runs. `private`: the server listens at sockets
        that only our user can open; otherwise it listens at ports, which all users of this machine can reach.
        `endpoints`: where it listens instead, which other machines may reach: nothing asks them for a key. `grace`: how
        long stop() waits for requests in flight and open sequences. `log`: the file that the server's log is
        appended to.
        """
        self._repository = repository.resolve()
        self._models = tuple(models) if models is not None else models_in(self._repository)
        self._folders = folders or {}
        self._reader, self._reads_alone, self._speakers = reader, reads_alone, speakers
        self._instances, self._slots, self._private, self._endpoints = instances, slots, private, endpoints
        # The present number of instances of each model, if it can change.
        self._resizable, self._instance_counts = resizable, dict.fromkeys(self._models, instances or 1)
        self._ready_timeout, self._grace, self._log = ready_timeout, grace, log
        self._running: ServerProcess | None = None
        self._lock = threading.Lock()  # for changes of _running

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
        """Start the server and return at once. Do nothing if it was started before."""
        with self._lock:
            if self._running is None:
                self._running = self._spawn()

    def wait_ready(self) -> None:
        """Wait until every model is ready. If that fails, stop it and raise TritonError with the server's reason."""
        running = self._running_process()
        deadline = time.monotonic() + self._ready_timeout
        attempt = 1
        while not running.answers(self._names):
            ended = running.has_ended()
            log = running.read_log()
            if self._running is not running:
                raise TritonError("Triton was stopped before it was ready")
            if ended and TAKEN in log and attempt < START_ATTEMPTS:
                attempt += 1
                running = self._restart(running)
            elif ended or any(words in log for words in NEVER_READY):
                self.stop()
                raise TritonError(f"Triton could not start: {failure_in(log)}")
            elif time.monotonic() > deadline:
                self.stop()
                raise TritonError(f"Triton was not ready after {self._ready_timeout:g} s: {failure_in(log)}")
            time.sleep(POLL_SECONDS)
        server_folder.close_regions(running.folder)  # private_memory.py has usually done this before

    def stop(self) -> None:
        """End the server and wait, within a limit, until nothing of it is left. A second call does nothing."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close(self._grace)

    def kill(self) -> None:
        """Kill the server and all of its processes at once, whatever their state. start() can start another server."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.kill()
            running.close(0.0)

    @property
    def running(self) -> bool:
        """Whether the server was started and has not ended, by itself or by stop()."""
        return self._running is not None and not self._running.has_ended()

    @property
    def reader(self) -> str | None:
        """The name of the model that reads ended segments; None if the server has none."""
        return None if self._reader is None else READER

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the server has, and that another start would load."""
        return self._models

    def load(self, model: str) -> None:
        """Load another model while the server runs. If that fails, raise TritonError with the server's reason."""
        running = self._running_process()
        folder = self.folder_of(model)
        if self._is_copied:
            self._link(folder, running.folder / COPY / model)
            self._make_resizable(running.folder / COPY / model)
        running.control(model, "load")
        server_folder.close_regions(running.folder)
        with self._lock:
            self._models = (*(other for other in self._models if other != model), model)
            self._instance_counts[model] = self.instances(model) or 1

    def folder_of(self, model: str) -> Path:
        """Return the folder of a model, loaded or not. Raise TritonError if there is no such model."""
        folder = self._folders.get(model, self._repository / model)
        if not folder.is_dir():
            raise TritonError(f"there is no model {model} in {self._repository}")
        return folder

    def memory(self, model: str) -> int | None:
        """Return the bytes that the processes of this model hold; None if it has no processes."""
        try:
            return memory_of(self.pid, model)
        except TritonError:
            return None

    def instances(self, model: str) -> int | None:
        """Return the number of instances that a start would give this model; None if the number cannot change."""
        if not self._resizable:
            return None
        # A model that replaces another one while the server runs needs as many instances as the other one.
        return self._instance_counts.get(model) or max(self._instance_counts.values(), default=1)

    def note_instances(self, model: str, instances: int) -> None:
        """Note a new number of instances, so that another start uses it."""
        self._instance_counts[model] = instances

    def close_regions(self) -> None:
        """Close the shared memory of new instances to other users. guard.py has usually done this before."""
        server_folder.close_regions(self._running_process().folder)

    def unload(self, model: str) -> None:
        """Unload a model while the server runs. Its sequences are lost. Raise TritonError if the model stays loaded."""
        with self._lock:
            self._models = tuple(other for other in self._models if other != model)
            self._instance_counts.pop(model, None)
        self._running_process().control(model, "unload")

    # If another process takes a port, the server starts again at other ports. So the addresses may change until
    # wait_ready() has returned.

    @property
    def grpc_address(self) -> str:
        """The address of the gRPC endpoint: host:port, or unix: and the path of a socket."""
        return str(self._running_process().endpoints.grpc)

    @property
    def http_address(self) -> str:
        """The host:port of the HTTP endpoint, for a server that is not private."""
        return str(self._running_process().endpoints.http)

    @property
    def metrics_address(self) -> str:
        """The host:port of the Prometheus endpoint, for a server that is not private."""
        return str(self._running_process().endpoints.metrics)

    @property
    def pid(self) -> int:
        """The process number of tritonserver itself."""
        return self._running_process().pid()

    def loads(self) -> list[str]:
        """Return what the models say in the log about their load: how long each part of it took."""
        return _LOADED.findall(self._running_process().read_log())

    def _running_process(self) -> ServerProcess:
        if self._running is None:
            raise TritonError("Triton has not been started")
        return self._running

    def _restart(self, ended: ServerProcess) -> ServerProcess:
        """Start the server again, at other ports."""
        with self._lock:
            if self._running is not ended:
                raise TritonError("Triton was stopped before it was ready")
            ended.close(self._grace)
            self._running = None
            self._running = self._spawn()
            return self._running

    def _spawn(self) -> ServerProcess:
        installation = find_tritonserver()
        try:
            with ExitStack() as always, ExitStack() as undo:
                folder, lock = server_folder.claim()
                always.callback(os.close, lock)  # the guard has a copy, which keeps the folder locked
                undo.callback(server_folder.remove, folder)
                installation.link_backend(folder / "backends")
                endpoints = self._endpoints or (sockets_in(folder) if self._private else None) or loopback_ports()
                repository = self._repository_in(folder)
                command = _command(installation, folder, repository, self._names, endpoints, self._grace)
                log = undo.enter_context((self._log or folder / "log").open("a+b"))
                log_start = log.tell()
                process = subprocess.Popen(
                    [sys.executable, *GUARD, str(folder), str(self._grace), *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=folder,
                    env=installation.environment(folder),
                    pass_fds=[lock],
                    start_new_session=True,  # Ctrl-C in a terminal must reach only this process
                )
                undo.pop_all()
        except OSError as error:
            reason = error.strerror if error.strerror and error.filename is None else error
            raise TritonError(f"Triton could not be started: {reason}") from error
        return ServerProcess(process, folder, endpoints, log, log_start)

    @property
    def _is_copied(self) -> bool:
        """Whether the server gets a repository of links instead of the original."""
        return (
            bool(self._folders or self._reader or self._speakers)
            or self._resizable
            or self._instances is not None
            or self._slots is not None
            or gpu_is_there()  # whose batches may be larger
        )

    @property
    def _names(self) -> tuple[str, ...]:
        """The models that a start loads, and those that help them."""
        helpers = {READER: self._reader is not None, SPEAKERS: self._speakers}
        return (*self._models, *(name for name, wanted in helpers.items() if wanted))

    def _link(self, model: Path, copy: Path) -> None:
        alone = copy.name in self._reads_alone
        link_model(model.resolve(), copy, instances=self._instances, slots=self._slots, reads_alone=alone)

    def _repository_in(self, folder: Path) -> Path:
        """Return the repository, or a copy of links in this folder if models or settings change."""
        if not self._is_copied:
            return self._repository
        copy = folder / COPY
        link_repository(self._repository, copy, self._models, instances=self._instances, slots=self._slots)
        for name, model in self._folders.items():
            self._link(model, copy / name)
        for name in self._models:
            self._make_resizable(copy / name)
        if self._reader is not None:
            own = self._repository / READER
            link_reader(own if own.is_dir() else asr_repository() / READER, self._reader, copy / READER, instances=1)
        if self._speakers and not (copy / SPEAKERS).exists():
            link_model((asr_repository() / SPEAKERS).resolve(), copy / SPEAKERS)
        return copy

    def _make_resizable(self, copy: Path) -> None:
        if (instances := self.instances(copy.name)) is not None:
            make_resizable(copy, instances)


def _command(
    installation: Installation,
    folder: Path,
    repository: Path,
    models: Sequence[str],
    endpoints: Endpoints,
    grace: float,
) -> list[str]:
    options = {
        "model-repository": repository,
        "backend-directory": folder / "backends",
        "model-control-mode": "explicit",
        "grpc-address": endpoints.grpc.address,
        "grpc-port": endpoints.grpc.port,
        "http-address": endpoints.http.address,
        "http-port": endpoints.http.port,
        "metrics-address": endpoints.metrics.address,
        "metrics-port": endpoints.metrics.port,
        # This is longer than the grace, because the server crashes if clients still send when this time is up.
        "exit-timeout-secs": int(grace) + EXIT_MARGIN_SECONDS,
    }
    python = {
        "shm-region-prefix-name": f"{folder.name}-",
        "shm-default-byte-size": REGION_BYTES,
        "shm-growth-byte-size": 1 << 20,
    }
    return [
        str(installation.binary),
        "--disable-auto-complete-config",  # this saves a second for each model
        *(f"--{name}={value}" for name, value in options.items()),
        *(f"--backend-config=python,{name}={value}" for name, value in python.items()),
        *(f"--load-model={model}" for model in models),
    ]


# Finds the processes of a Triton's models, one for each instance, and the memory that they hold.

PROCESSES: Final = Path("/proc")


def memory_of(server: int, model: str) -> int | None:
    """Return the bytes that this model's processes hold; None if it has none. `server`: tritonserver's process number.

    Libraries count for each process, although processes may share them.
    """
    sizes = [_resident(process) for process in _children(server) if _computes(process, model)]
    return sum(sizes) or None


def _children(process: int) -> Iterator[int]:
    for path in (PROCESSES / str(process) / "task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            for child in map(int, path.read_text(encoding="ascii").split()):
                yield child
                yield from _children(child)


def _computes(process: int, model: str) -> bool:
    """Return whether a process belongs to the model. Its command then names model.py in the folder of a version."""
    try:
        command = (PROCESSES / str(process) / "cmdline").read_bytes().split(b"\0")
    except OSError:  # the process has ended
        return False
    return any(Path(os.fsdecode(part)).parts[-3:-2] == (model,) for part in command)


def _resident(process: int) -> int:
    try:
        fields = (PROCESSES / str(process) / "statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
