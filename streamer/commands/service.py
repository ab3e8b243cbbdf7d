"""Chooses the service of a command: the one that was named, the one that runs on this machine, or an embedded one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.names import model_name
from streamer.base.package import install_command
from streamer.base.timing import Timing
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.models.library import LibraryError, ModelLibrary

EMBEDDED: Final = "embedded"  # in place of a URL: a service within this process

ReadyService = Callable[[], AbstractAsyncContextManager[str]]


def choose_service(server: str | None, folder: Path | None = None) -> str:
    """Return the URL of the service to use, or EMBEDDED. Without a name, prefer a ready service on this machine.

    Only an embedded service can load a model from a folder. TritonError if another one was named.
    """
    if folder is not None:
        if server not in (None, EMBEDDED):
            raise TritonError(
                "--model FOLDER starts a service of its own: leave out --server (and STREAMER_SERVER), or give the "
                "public name of a model that the service has."
            )
        return EMBEDDED
    if server is not None:
        return server
    if is_ready(DEFAULT_HOST, DEFAULT_PORT):
        return websocket_url(f"{DEFAULT_HOST}:{DEFAULT_PORT}")
    return EMBEDDED


@contextmanager
def chosen_service(server: str | None, timing: Timing, folder: Path | None = None) -> Iterator[ReadyService]:
    """Provide a service within a `with` block; `async with ready_service() as url` waits until it is ready.

    `folder`: the model of an embedded service, if it is not the default of this machine.

    An embedded service is spawned here, so that it starts while the rest is imported. TritonError if that fails.
    """
    url = choose_service(server, folder)
    if url != EMBEDDED:

        @asynccontextmanager
        async def elsewhere() -> AsyncIterator[str]:
            yield url

        yield elsewhere
        return
    if sys.platform != "linux":
        raise TritonError(
            "no service was named, no service on this machine is ready, and the embedded service needs Triton, "
            "which runs only on Linux: name a service with --server."
        )

    folder = folder or _default_folder()
    with Embedded(timing, folder) as embedded:
        yield embedded.serving


def _default_folder() -> Path | None:
    """Return the folder of the default model of this machine, and print its name. None for the shipped model."""
    library = ModelLibrary()
    try:
        folder = library.default_folder()
    except LibraryError as error:
        raise TritonError(f"{error}.") from error
    if folder is not None:
        print(f"streamer: using {folder.name}, the default model of this machine.", file=sys.stderr)
    return folder


# A whole service inside this process while one command runs: a Triton server with the bridge in front of it.


class Embedded:
    """Spawns a Triton server on entry, and stops it on exit."""

    def __init__(self, timing: Timing, folder: Path | None = None) -> None:
        """`folder`: the model, if it is not the shipped one."""
        self._timing = timing
        self._model = model_name(folder) if folder else MODEL
        folders = {self._model: folder} if folder else {}
        # A second instance would only slow the start: both would share the processor.
        self._triton = TritonServer(asr_repository(), models=[self._model], folders=folders, instances=1, private=True)

    def __enter__(self) -> Embedded:
        self._triton.start()
        self._timing.mark("Triton spawned")
        return self

    def __exit__(self, *details: object) -> None:
        self._triton.stop()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Wait until the service is ready, and provide its URL."""
        try:
            from streamer.bridge.service import Service
            from streamer.bridge.telemetry import logs
        except ImportError as error:
            reason = f"an embedded service needs the package {error.name}"
            raise TritonError(f"{reason}: {install_command('embedded')}, or use --server.") from error
        # The client tells the user what goes wrong with a session. So only errors that nothing else reports are logged.
        logs.configure("text", "error")
        self._timing.mark("bridge imported")
        async with Service(self._triton, port=0, models={DEFAULT_MODEL: self._model}) as service:
            self._timing.mark("service ready")
            yield service.url
