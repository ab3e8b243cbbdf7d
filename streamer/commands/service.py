"""Chooses the service of a command: the one that was named, the one that runs on this machine, or an embedded one."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.base.timing import Timing
from streamer.bridge.triton import TritonError
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
def chosen_service(
    server: str | None, timing: Timing, folder: Path | None = None, *, listeners: int = 0, speakers: bool = False
) -> Iterator[ReadyService]:
    """Provide a service within a `with` block; `async with ready_service() as url` waits until it is ready.

    `folder`: the model of an embedded service, if it is not the default of this machine. `listeners`: how many may
    read a session of it along. `speakers`: whether sessions will ask who speaks.

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

    from streamer.commands.embedded import Embedded

    folder = folder or _default_folder()
    with Embedded(timing, folder, listeners=listeners, speakers=speakers) as embedded:
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
