"""Chooses the service of a command: the one that was named, the one that runs on this machine, or an embedded one.

Commands of operators ask a service of this machine through its socket.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from streamer.base.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.base.json_types import JsonObject
from streamer.base.private_socket import answers, runtime_path
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


# Commands of operators.


class OperatorError(Exception):
    """A service of this machine cannot be asked. The message is a sentence."""


def socket_of_service(port: int | None, control: Path | None) -> Path:
    """Return the socket of the service that was named, or of the only one of this user that runs.

    OperatorError if there is none, or more than one. `control`: the path that the service was started with.
    """
    if control is not None:
        return control
    if port is not None:
        return runtime_path(f"{port}.sock")
    folder = runtime_path("")
    sockets = {int(path.stem): path for path in folder.glob("*.sock") if path.stem.isdecimal() and answers(path)}
    if not sockets:
        raise OperatorError(
            f"no service of this user runs on this machine (none listens in {folder}): `streamer serve` starts one; "
            "give --control if it was started with that."
        )
    if len(sockets) > 1:
        ports = ", ".join(map(str, sorted(sockets)))
        raise OperatorError(f"{len(sockets)} services run on this machine: choose one with --port, of {ports}.")
    return next(iter(sockets.values()))


def ask_service(path: Path, request: JsonObject, silence_s: float) -> Iterator[JsonObject]:
    """Yield the answers of the service at this socket. OperatorError if there is none, or if none comes for so long."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(silence_s)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            for line in connection.makefile(encoding="utf-8"):
                yield json.loads(line)
            reason = "the service has ended"
        except (OSError, ValueError) as error:
            reason = str(getattr(error, "strerror", None) or error)
    raise OperatorError(f"no answer at {path}: {reason}. Is the service running on this machine?")
