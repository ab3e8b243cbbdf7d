"""How the workers of one service reach each other: a Unix socket of each, in their private folder.

A question is one object of JSON, with a socket beside it if a connection is given away. The answer begins with an
object, and pieces may follow. Both are frames: four bytes with their length, and then so many bytes. An empty frame is
the end; an answer that ends without one was cut off. No chunk of a session comes this way.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.telemetry.logs import Failures

# A worker that runs answers at once. One that does not is stopped or overloaded.
ANSWER_LIMIT_S: Final = 3.0
# A listener may hear nothing for a while, but its pieces come at least as often as this.
PIECE_LIMIT_S: Final = 60.0
_LENGTH: Final = struct.Struct(">I")
LARGEST_QUESTION: Final = 256 * 1024
_LARGEST_PIECE: Final = 16 * 1024 * 1024
_BACKLOG: Final = 128
# How long nobody is heard after no descriptor was left for a connection. It would be refused again at once, for ever.
ACCEPT_PAUSE_S: Final = 1.0


class NeighbourAway(Exception):
    """Another worker does not answer. `gone`: it does not run, so its sessions are gone, too."""

    def __init__(self, number: int, *, gone: bool) -> None:
        super().__init__(f"worker {number} {'does not run' if gone else 'does not answer'}")
        self.gone = gone


@dataclass(frozen=True)
class Reply:
    """An answer: its head, and the pieces that follow. `keeps`: the socket that came with the question is kept."""

    head: JsonObject
    pieces: AsyncGenerator[bytes, None] | None = None
    keeps: bool = False


# Answers a question, and gets the socket that came with it.
Answer = Callable[[JsonObject, "socket.socket | None"], Awaitable[Reply]]


class Neighbours:
    """The other workers of a service, and the socket at which they reach this one."""

    def __init__(self, folder: Path, number: int, workers: int) -> None:
        """`number`: of this worker, from 1 to `workers`. One that is started again gets the same number."""
        self.number = number
        self.workers = workers
        self._folder = folder
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: Mapping[str, Answer] = {}
        self._failures: Failures | None = None

    def is_other(self, number: int) -> bool:
        """Return whether this is the number of another worker."""
        return 1 <= number <= self.workers and number != self.number

    @property
    def others(self) -> list[int]:
        """The numbers of the other workers."""
        return [number for number in range(1, self.workers + 1) if number != self.number]

    async def open(self, answers: Mapping[str, Answer], failures: Failures) -> None:
        """Listen for questions. `answers`: by the kind of the question."""
        self._answers, self._failures = answers, failures
        path = self._path(self.number)
        with suppress(FileNotFoundError):
            path.unlink()  # of the worker that had this number before
        listener = self._listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        self._hear(listener)

    async def close(self) -> None:
        """Listen no more, and end the answers that are under way."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            with suppress(FileNotFoundError):
                self._path(self.number).unlink()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, number: int, kind: str, question: JsonObject, gift: int | None = None) -> Reply:
        """Ask another worker. `gift`: the descriptor of a socket that it gets, too. Raise NeighbourAway if it is away.

        The caller must close the pieces.
        """
        loop = asyncio.get_running_loop()
        try:
            client = socket.socket(socket.AF_UNIX)
        except OSError:  # no descriptor is left
            raise NeighbourAway(number, gone=False) from None
        client.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(client, str(self._path(number))), ANSWER_LIMIT_S)
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            raise NeighbourAway(number, gone=True) from None
        except (OSError, asyncio.TimeoutError):
            client.close()
            raise NeighbourAway(number, gone=False) from None
        writer: asyncio.StreamWriter | None = None
        try:
            data = json.dumps({**question, "kind": kind}).encode()
            # The first bytes of a new connection always fit, and the socket comes with them.
            if gift is None:
                client.send(_LENGTH.pack(len(data)))
            else:
                socket.send_fds(client, [_LENGTH.pack(len(data))], [gift])
            await asyncio.wait_for(loop.sock_sendall(client, data), ANSWER_LIMIT_S)
            reader, writer = await asyncio.open_unix_connection(sock=client)
            head = json.loads(await asyncio.wait_for(_read(reader), ANSWER_LIMIT_S))
        except BaseException as error:
            if writer is None:
                client.close()
            else:
                writer.transport.abort()
            if isinstance(error, (OSError, EOFError, asyncio.TimeoutError)):
                raise NeighbourAway(number, gone=False) from None
            raise
        return Reply(head, _pieces(number, reader, writer))

    async def ask_briefly(self, number: int, kind: str, question: JsonObject, gift: int | None = None) -> Reply:
        """Ask for an answer without pieces."""
        reply = await self.ask(number, kind, question, gift)
        if reply.pieces is not None:
            with suppress(NeighbourAway):
                async for _ in reply.pieces:
                    pass
        return Reply(reply.head)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.sock"

    def _hear(self, listener: socket.socket) -> None:
        if listener is self._listener:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left
            loop.remove_reader(listener)
            loop.call_later(ACCEPT_PAUSE_S, self._hear, listener)
            return
        client.setblocking(False)
        task = loop.create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket) -> None:
        reply: Reply | None = None
        gift: socket.socket | None = None
        writer: asyncio.StreamWriter | None = None
        try:
            question, gift = await asyncio.wait_for(_receive(client), ANSWER_LIMIT_S)
            if _left(client):
                return
            answer = self._answers[str(question.pop("kind"))]
            reply = await answer(question, gift)
            if reply.keeps:
                gift = None
            _, writer = await asyncio.open_unix_connection(sock=client)
            _write(writer, json.dumps(reply.head).encode())
            if reply.pieces is not None:
                async for piece in reply.pieces:
                    if piece:
                        _write(writer, piece)
                        await writer.drain()
            _write(writer, b"")
            await writer.drain()
            writer.close()
            writer = None
        except (OSError, EOFError, asyncio.TimeoutError):
            pass  # the other worker has ended, or its client
        except Exception as error:
            if self._failures is not None:
                self._failures.report("a question of another worker failed", error)
        finally:
            if writer is not None:
                writer.transport.abort()
            elif client.fileno() >= 0 and reply is None:
                client.close()
            if gift is not None:
                gift.close()
            if reply is not None and reply.pieces is not None:
                await reply.pieces.aclose()


async def _receive(client: socket.socket) -> tuple[JsonObject, socket.socket | None]:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def note() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(client, note)
    try:
        await readable
    finally:
        loop.remove_reader(client)
    data, descriptors, _, _ = socket.recv_fds(client, _LENGTH.size, 1)
    gift = socket.socket(fileno=descriptors[0]) if descriptors else None
    for superfluous in descriptors[1:]:
        os.close(superfluous)
    try:
        while len(data) < _LENGTH.size:
            data += await _some(client, _LENGTH.size - len(data))
        [length] = _LENGTH.unpack(data)
        if length > LARGEST_QUESTION:
            raise EOFError
        text = b""
        while len(text) < length:
            text += await _some(client, length - len(text))
        question = json.loads(text)
        if not isinstance(question, dict):
            raise EOFError
    except BaseException as error:
        if gift is not None:
            gift.close()
        if isinstance(error, ValueError):
            raise EOFError from None
        raise
    return question, gift


def _left(client: socket.socket) -> bool:
    """Return whether who asked has given up, as it does if this process was stopped for a while.

    It has told its client to try again, and uses the connection that it wanted to give away.
    """
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False


async def _some(client: socket.socket, most: int) -> bytes:
    data = await asyncio.get_running_loop().sock_recv(client, most)
    if not data:
        raise EOFError
    return data


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        [length] = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _LARGEST_PIECE:
            raise EOFError
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise EOFError from None


async def _pieces(
    number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of an answer. Raise NeighbourAway if it is cut off."""
    try:
        while piece := await asyncio.wait_for(_read(reader), PIECE_LIMIT_S):
            yield piece
    except (OSError, EOFError, asyncio.TimeoutError):
        raise NeighbourAway(number, gone=False) from None
    finally:
        writer.close()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(_LENGTH.pack(len(data)) + data)


async def whole(reply: Reply) -> bytes:
    """Return all pieces of an answer together."""
    if reply.pieces is None:
        return b""
    async with aclosing(reply.pieces) as pieces:
        return b"".join([piece async for piece in pieces])
