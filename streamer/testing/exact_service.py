"""A real service for tests of clients, and model repositories for a real Triton: both recognise test audio exactly."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from streamer.base.limits import READER
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import CONFIG, asr_repository, config_text, model_config, reconfigure
from streamer.bridge.triton.server import TritonServer
from streamer.testing.faulty_proxy import FaultyProxy

START_LIMIT_S: Final = 120.0
STOP_LIMIT_S: Final = 60.0
CALL_LIMIT_S: Final = 10.0


class ExactService:
    """A context manager that runs Triton and the bridge on this machine. `say("hello world")` is audio for these words.

    Clients connect to `url`. The methods cause faults, which a client must handle. Any thread may call them.
    """

    def __init__(self, *, slots: int = 64, **settings: Any) -> None:
        """`slots`: how many streams there may be at a time; `settings`: the settings of streamer.bridge.service."""
        self.url = ""
        self.wyoming_port: int | None = None
        self.grpc_port: int | None = None
        self._slots = slots
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._proxy: FaultyProxy | None = None
        self._triton: TritonServer | None = None
        self._leave = asyncio.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ExactService:
        # Tests of clients do not show the log of the service by default. They can add a handler to see it.
        logging.getLogger("streamer").addHandler(logging.NullHandler())
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="exact service", daemon=True)
        self._thread.start()
        ready.result(START_LIMIT_S)
        return self

    def __exit__(self, *details: object) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join(STOP_LIMIT_S)

    def cut(self) -> None:
        """End all connections at once, as if the network had failed. Clients can connect again."""
        self._await(self._way.cut())

    def stall(self) -> None:
        """Hold back all data in both directions, but keep the connections open, until `resume`."""
        self._call(self._way.stall)

    def resume(self) -> None:
        """Pass on the data that `stall` held back, and all later data."""
        self._call(self._way.resume)

    def refuse(self, refusing: bool = True) -> None:
        """End new connections as soon as they are made, until `refuse(False)`."""
        self._call(lambda: setattr(self._way, "refusing", refusing))

    def kill_recogniser(self) -> None:
        """Kill Triton. The service starts it again, and sessions go on: they get the event `recovered`."""
        assert self._triton is not None
        os.kill(self._triton.pid, signal.SIGKILL)

    @property
    def triton_address(self) -> str:
        """Where the Triton of this service is reached, for another service in front of the same recogniser."""
        assert self._triton is not None
        return self._triton.grpc_address

    @property
    def _way(self) -> FaultyProxy:
        assert self._proxy is not None
        return self._proxy

    def _call(self, function: Callable[[], object]) -> None:
        async def call() -> None:
            function()

        self._await(call())

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_LIMIT_S)

    def _run(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: Future[None]) -> None:
        # Imported only here, because the model in Triton imports this package too, and must not need the bridge.
        from streamer.bridge.service import Service

        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="streamer-exact-"))
            self._triton = TritonServer(exact_repository(Path(folder)), slots=self._slots)
            service = await stack.enter_async_context(Service(self._triton, port=0, **self._settings))
            self.wyoming_port = service.wyoming_port
            self.grpc_port = service.grpc_port
            parts = urlsplit(service.url)
            self._proxy = FaultyProxy(lambda: parts.netloc)
            await self._proxy.open()
            stack.push_async_callback(self._proxy.close)
            self.url = parts._replace(netloc=self._proxy.address).geturl()
            ready.set_result(None)
            await self._leave.wait()


# Makes model repositories for a real Triton. Their model recognises test audio exactly, and can have a fault.

Fault = Literal[
    "does not load", "fails", "says nothing", "talks nonsense", "hangs", "hangs later", "reads again slowly"
]

# The faults that a model can have.
FAULTS: Final[dict[Fault, str]] = {
    "does not load": "Triton cannot load it",
    "fails": "every request is answered with an error",
    "says nothing": "requests are answered without events",
    "talks nonsense": "its events are not JSON",
    "hangs": "a stream waits for 12 s if no other one is open",
    "hangs later": "it stops answering for good when there is a file `hang` beside its model.py",
    "reads again slowly": "a second pass of 10 s of audio takes 1 s, one of 20 s takes 4 s",
}

_ADAPTER = """from streamer.testing.exact_adapter import adapter

TritonPythonModel = adapter(__file__, {fault!r}, punctuation={punctuation}, reader={reader})
"""

_STEP = """from streamer.testing.exact_adapter import {adapter} as TritonPythonModel
"""

_READER: Final = """from streamer.testing.exact_reader_model import {adapter} as TritonPythonModel
"""

_STEPS: Final = {
    "speech_encoder": "ExactEncoder",
    "activity_head": "ExactActivity",
    "transcript_head": "ExactTranscript",
}


def exact_repository(folder: Path, *, punctuation: bool = False, reader: bool = False) -> Path:
    """Make a repository in this folder, with an exact model in the place of the shipped one.

    With `punctuation`, the written form has the marks and capitals of the shipped punctuation model. With `reader`, it
    also has a reader that reads the same audio exactly.
    """
    add_exact_model(folder, punctuation=punctuation, reader=reader)
    return folder


def exact_heads_repository(folder: Path) -> Path:
    """Make a repository in this folder, with an exact recogniser in steps in the place of the shipped `asr_heads`."""
    for name in ("asr_heads", "feature_router"):
        (folder / name).symlink_to(asr_repository() / name)
    for name, adapter in _STEPS.items():
        (folder / name / "1").mkdir(parents=True)
        (folder / name / CONFIG).symlink_to(asr_repository() / name / CONFIG)
        text = _STEP.format(adapter=adapter)
        (folder / name / "1" / "model.py").write_text(text, encoding="utf-8")
    return folder


def add_exact_model(
    repository: Path,
    name: str = MODEL,
    *,
    slots: int | None = None,
    instances: int | None = None,
    fault: Fault | None = None,
    punctuation: bool = False,
    reader: bool = False,
) -> Path:
    """Put an exact model of this name into a repository, and return its folder. `slots` is for each instance.

    With `reader`, the repository also gets a reader. It is slow if the fault is that the model reads again slowly.
    """
    config = reconfigure(model_config(asr_repository() / MODEL), name=name, instances=instances, slots=slots)
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / CONFIG).write_text(config_text(config), encoding="utf-8")
    text = _ADAPTER.format(fault=fault, punctuation=punctuation, reader=reader)
    (folder / "1" / "model.py").write_text(text, encoding="utf-8")
    if reader:
        _add_reader(repository / READER, "SlowReaderModel" if fault == "reads again slowly" else "TritonPythonModel")
    return folder


def _add_reader(folder: Path, adapter: str) -> None:
    (folder / "1").mkdir(parents=True)
    (folder / CONFIG).symlink_to(asr_repository() / READER / CONFIG)
    (folder / "1" / "model.py").write_text(_READER.format(adapter=adapter), encoding="utf-8")
