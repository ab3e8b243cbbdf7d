"""Requests to a running `streamer mic`, over a socket in the user's runtime folder: `streamer mic --control toggle`.

Each connection sends one line with a request, and gets one with the state after it. So a shortcut of a window manager
needs no Python to start: `echo toggle | nc -U "$XDG_RUNTIME_DIR/streamer/mic.sock"` does the same.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.private_socket import PrivateSocket, SocketError, answers, runtime_path
from streamer.base.text import either

if TYPE_CHECKING:
    import asyncio

ANSWER_S: Final = 5.0
_LONGEST: Final = 256


class Request(Enum):
    """What a running session can be asked for."""

    TOGGLE = "toggle"
    LISTEN = "listen"
    PAUSE = "pause"
    SCRATCH = "scratch"
    STATE = "state"
    END = "end"


class ControlError(Exception):
    """A request was not taken, or cannot be. The message is a sentence for the user, without its full stop."""


def socket_path() -> Path:
    """Return the path of the socket."""
    return runtime_path("mic.sock")


def ask(request: Request) -> str:
    """Send a request, and return the state after it. ControlError if no session takes it."""
    if not hasattr(socket, "AF_UNIX"):
        raise ControlError("this system has no sockets for requests")
    path = socket_path()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_S)
            connection.connect(str(path))
            connection.sendall(f"{request.value}\n".encode())
            answer = connection.makefile(encoding="utf-8").readline().strip()
    except (FileNotFoundError, ConnectionRefusedError):
        running = "no `streamer mic` takes requests: start one with --type, --clipboard, --hotkey or --paused"
        raise ControlError(running) from None
    except (OSError, ValueError) as error:
        raise ControlError(f"no answer at {path}: {getattr(error, 'strerror', None) or error}") from error
    if not answer:
        raise ControlError("the session has ended")
    return answer


@asynccontextmanager
async def taking_requests(perform: Callable[[Request], Awaitable[str]]) -> AsyncIterator[None]:
    """Take requests until exit. `perform` returns the state after each. ControlError if that is not possible."""
    import asyncio  # not for --help, nor for whoever sends a request

    if not hasattr(socket, "AF_UNIX"):  # Windows
        yield
        return

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.TimeoutError):
            line = await asyncio.wait_for(reader.readline(), ANSWER_S)
            if not line.strip():  # somebody only looks whether there is a session
                return
            try:
                answer = await perform(Request(line.decode(errors="replace").strip()))
            except ValueError:
                answer = f"a request must be {either(each.value for each in Request)}"
            writer.write(f"{answer}\n".encode())
            await asyncio.wait_for(writer.drain(), ANSWER_S)

    async def take_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await take(reader, writer)
        finally:
            writer.close()

    place = PrivateSocket(socket_path())
    try:
        if answers(place.path):
            raise ControlError("another `streamer mic` takes requests already: `streamer mic --control end` ends it")
        bound = place.bind()
    except SocketError as error:
        raise ControlError(str(error)) from error
    server = await asyncio.start_unix_server(take_and_close, sock=bound, limit=_LONGEST)
    try:
        yield
    finally:
        server.close()
        place.remove()
