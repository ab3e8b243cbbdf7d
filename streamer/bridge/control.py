"""A Unix socket for the operator's requests to the running service. Only the operator's user can use it.

Each connection sends one request, a JSON object on one line: {"roll": "streaming_asr_2", "name": "default",
"limit_s": 120}. `name` is the public name that shall stand for this Triton model. The answers are lines too, each with
a sentence: {"told": …} reports progress, and the last one is {"done": …} or {"failed": …}. The other requests are about
sessions and usage: {"admin": "sessions"}, {"admin": "end", "id": …} and {"admin": "usage", "day": …}. Their only answer
is {"done": an object} or {"failed": …}.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol

from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL, RETIRE_LIMIT_S
from streamer.base.names import check_name
from streamer.base.private_socket import InsecureFolderError, PrivateSocket, SocketError, runtime_path
from streamer.base.text import as_sentence
from streamer.bridge.telemetry.logs import Failures, Log, say
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.pool import RollError

log = Log("streamer.bridge")

ASK_LIMIT_S: Final = 5.0
LONGEST_REQUEST: Final = 4096
MOST_AT_A_TIME: Final = 4
_PEER: Final = struct.Struct("3i")  # process, user, group
Kind = Literal["told", "done", "failed"]
Tell = Callable[[Kind, str], None]
# Answers a request about sessions. ValueError or KeyError if it is none.
Administer = Callable[[JsonObject], Awaitable[JsonObject]]


class ControlError(Exception):
    """The socket cannot be opened. The message says why."""


def default_path(port: int) -> Path:
    """Return the default path of the socket for the service on this port, in a folder that only this user can write."""
    return runtime_path(f"{port}.sock")


class Rolls(Protocol):
    """What can roll models: a service in one process, or its workers."""

    @property
    def names(self) -> tuple[str, ...]:
        """The public names of the models."""

    async def roll(self, request: RollRequest, tell: Tell) -> None:
        """Replace a model, and say how that goes on. Raise RollError if it fails and nothing has changed."""


class OwnRolls:
    """Rolls the models of this process."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @property
    def names(self) -> tuple[str, ...]:
        """The public names of the models."""
        return self._models.names

    async def roll(self, request: RollRequest, tell: Tell) -> None:
        """Replace a model, and say how that goes on."""
        pool, model = self._models.pools[request.name], request.model
        former = pool.model
        log.info("rolling", name=pool.name, model=model, former=former)
        asking = f"asking each Triton to load and test {model}"
        gone = await pool.roll(model, request.limit_s, lambda: tell("told", asking))
        held = pool.held.get(former, 0)
        tell("told", f"new sessions use {model}; sequences of {former} that move at their next cut: {held}")
        kept = [str(why) for why in await gone if why]
        tell("done", "; ".join([f"{model} is in use", *(kept or [f"{former} is unloaded"])]))


class Control:
    """Listens from entry to exit."""

    def __init__(self, rolls: Rolls, administer: Administer, path: Path, failures: Failures) -> None:
        """`failures` gets the unexpected ones."""
        self._rolls = rolls
        self._administer = administer
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
        self._server = await asyncio.start_unix_server(self._begin, sock=bound, limit=LONGEST_REQUEST)
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

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer in a task of our own: asyncio before 3.12 reports one of its own as failed if it is cancelled."""
        task = asyncio.create_task(self._accept(reader, writer))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def tell(kind: Kind, sentence: str) -> None:
            if not writer.is_closing():
                writer.write(json.dumps({kind: sentence}).encode() + b"\n")

        try:
            if len(self._asked) > MOST_AT_A_TIME:
                tell("failed", "too many requests are under way; try again later")
            elif _user(writer) not in (0, os.geteuid()):
                tell("failed", "only the user that runs the service may send requests")
            else:
                await self._answer(reader, writer, tell)
        finally:
            writer.close()
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), ASK_LIMIT_S)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tell: Tell) -> None:
        try:
            content = json.loads(await asyncio.wait_for(reader.readline(), ASK_LIMIT_S))
            if "admin" in content:
                await self._answer_about_sessions(content, writer)
                return
            request = RollRequest.parse(content)
        except (asyncio.TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
            tell("failed", f"the request cannot be understood: {error}")
            return
        if request.name not in self._rolls.names:
            tell("failed", f"there is no public name {request.name!r}; the names are {', '.join(self._rolls.names)}")
            return
        try:
            await self._rolls.roll(request, tell)
        except RollError as error:
            log.error("not rolled", model=request.model, detail=str(error))
            tell("failed", f"{error}. Nothing has changed.")
        except Exception as error:
            self._failures.report("rolling failed", error)
            tell("failed", f"the service failed: {error}")

    async def _answer_about_sessions(self, question: JsonObject, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._administer(question)
        except (ValueError, KeyError):
            raise
        except Exception as error:
            self._failures.report("an answer to an operator failed", error)
            answer = {"failed": f"The service failed: {error}"}
        if not writer.is_closing():
            writer.write(json.dumps(answer).encode() + b"\n")


@dataclass(frozen=True)
class RollRequest:
    """A request that this model takes over a public name."""

    model: str
    name: str
    limit_s: float  # for sessions to reach a cut

    @classmethod
    def parse(cls, request: JsonObject) -> RollRequest:
        """Read a request. ValueError, KeyError, TypeError or AttributeError if it is not valid."""
        model, limit_s = check_name(str(request["roll"])), float(str(request.get("limit_s", RETIRE_LIMIT_S)))
        return cls(model, str(request.get("name", DEFAULT_MODEL)), limit_s)


@asynccontextmanager
async def listening(
    rolls: Rolls, administer: Administer, port: int, path: Path | None, failures: Failures
) -> AsyncIterator[None]:
    """Listen for an operator, by default at the path for this port. ControlError if another path is not possible.

    At the default path, a failure is only said: the service works without it.
    """
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(Control(rolls, administer, path or default_path(port), failures))
        except ControlError as error:
            if path:
                raise
            say(as_sentence(f"`streamer roll` will not reach this service: {error}"), logging.WARNING)
        yield


def _user(writer: asyncio.StreamWriter) -> int:
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(peer)[1])
