"""A Unix socket for the operator's requests to the running service. Only the operator's user can use it.

Each connection sends one request, a JSON object on one line: {"roll": "streaming_asr_2", "name": "default",
"limit_s": 120}. `name` is the public name that shall stand for this Triton model. The answers are lines too, each with
a sentence: {"told": …} reports progress, and the last one is {"done": …} or {"failed": …}.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from streamer.base.limits import DEFAULT_MODEL, RETIRE_LIMIT_S
from streamer.base.names import check_name
from streamer.base.private_socket import InsecureFolderError, PrivateSocket, SocketError, runtime_path
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.pool import RollError, UpstreamPool

log = Log("streamer.bridge")

ASK_LIMIT_S: Final = 5.0
LONGEST_REQUEST: Final = 4096
MOST_AT_A_TIME: Final = 4
_PEER: Final = struct.Struct("3i")  # process, user, group
Kind = Literal["told", "done", "failed"]
Tell = Callable[[Kind, str], None]


class ControlError(Exception):
    """The socket cannot be opened. The message says why."""


def default_path(port: int) -> Path:
    """Return the default path of the socket for the service on this port, in a folder that only this user can write."""
    return runtime_path(f"{port}.sock")


class Control:
    """Listens from entry to exit."""

    def __init__(self, models: Models, path: Path, failures: Failures) -> None:
        """`failures` gets the unexpected ones."""
        self._models = models
        self._failures = failures
        self._socket = PrivateSocket(path)
        self._server: asyncio.Server | None = None
        self._asked: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Control:
        try:
            bound = await asyncio.to_thread(self._socket.bind)
        except InsecureFolderError as error:
            raise ControlError(f"{error}: give --control a path in a folder of your own") from error
        except SocketError as error:
            raise ControlError(str(error)) from error
        self._server = await asyncio.start_unix_server(self._accept, sock=bound, limit=LONGEST_REQUEST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._socket.remove()
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def tell(kind: Kind, sentence: str) -> None:
            if not writer.is_closing():
                writer.write(json.dumps({kind: sentence}).encode() + b"\n")

        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        try:
            if len(self._asked) > MOST_AT_A_TIME:
                tell("failed", "too many requests are under way; try again later")
            elif _user(writer) not in (0, os.geteuid()):
                tell("failed", "only the user that runs the service may send requests")
            else:
                await self._answer(reader, tell)
        finally:
            self._asked.discard(task)
            writer.close()
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), ASK_LIMIT_S)

    async def _answer(self, reader: asyncio.StreamReader, tell: Tell) -> None:
        try:
            request = _Request.parse(await asyncio.wait_for(reader.readline(), ASK_LIMIT_S))
        except (asyncio.TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
            tell("failed", f"the request cannot be understood: {error}")
            return
        if request.name not in self._models.names:
            tell("failed", f"there is no public name {request.name!r}; the names are {', '.join(self._models.names)}")
            return
        try:
            await self._roll(self._models.pools[request.name], request, tell)
        except RollError as error:
            log.error("not rolled", model=request.model, detail=str(error))
            tell("failed", f"{error}. Nothing has changed.")
        except Exception as error:
            self._failures.report("rolling failed", error)
            tell("failed", f"the service failed: {error}")

    async def _roll(self, pool: UpstreamPool, request: _Request, tell: Tell) -> None:
        former, model = pool.model, request.model
        log.info("rolling", name=pool.name, model=model, former=former)
        asking = f"asking each Triton to load and test {model}"
        gone = await pool.roll(model, request.limit_s, lambda: tell("told", asking))
        held = pool.held.get(former, 0)
        tell("told", f"new sessions use {model}; sequences of {former} that move at their next cut: {held}")
        kept = [str(why) for why in await gone if why]
        tell("done", "; ".join([f"{model} is in use", *(kept or [f"{former} is unloaded"])]))


@dataclass(frozen=True)
class _Request:
    """A request that this model takes over a public name."""

    model: str
    name: str
    limit_s: float  # for sessions to reach a cut

    @classmethod
    def parse(cls, line: bytes) -> _Request:
        """Read a request. ValueError, KeyError, TypeError or AttributeError if it is not valid."""
        request = json.loads(line)
        model, limit_s = check_name(str(request["roll"])), float(request.get("limit_s", RETIRE_LIMIT_S))
        return cls(model, str(request.get("name", DEFAULT_MODEL)), limit_s)


def _user(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(peer)[1])
