"""What a worker and the process that started it say to each other: lines of JSON over a pair of sockets.

Both ask and answer. {"ask": number, "what": …, …} is answered with {"answer": number, "value": …} or with
{"answer": number, "failed": sentence}; {"tell": …} is not answered. The end of either process ends the dialogue.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import TritonError

log = Log("streamer.bridge")

_LONGEST_LINE: Final = 1 << 24  # all sessions of a service may be listed in one
# Answers a question. A TritonError goes to the asker, with its sentence.
Answer = Callable[[JsonObject], Awaitable[object]]


class DialogueEnded(TritonError):
    """The other process has ended."""

    def __init__(self) -> None:
        super().__init__("the other process of the service has ended")


class Dialogue:
    """One side of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    @classmethod
    async def over(cls, end: socket.socket) -> Dialogue:
        """Speak over this end of a pair of sockets."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_LONGEST_LINE))

    async def run(self, answers: Mapping[str, Answer], hear: Callable[[str, JsonObject], None]) -> None:
        """Answer and hear the other side, until it ends. `hear` is called with what it tells."""
        try:
            while line := await self._reader.readline():
                message: JsonObject = json.loads(line)
                if "ask" in message:
                    task = asyncio.create_task(self._answer(answers, message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
                elif "answer" in message:
                    self._take(message)
                else:
                    hear(str(message["tell"]), message)
        except (OSError, ValueError):
            pass  # it was killed, perhaps while it wrote a line
        finally:
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(DialogueEnded())
            self._asked.clear()
            for task in list(self._answering):
                task.cancel()
            self._writer.close()

    async def ask(self, what: str, **values: object) -> object:
        """Ask the other side. Raise TritonError with its sentence if that fails, and DialogueEnded if it has ended."""
        if self._writer.is_closing():
            raise DialogueEnded
        self._number += 1
        future = self._asked[self._number] = asyncio.get_running_loop().create_future()
        self._write({**values, "ask": self._number, "what": what})
        return await future

    def tell(self, what: str, **values: object) -> None:
        """Tell the other side something, if it is there."""
        self._write({**values, "tell": what})

    def close(self) -> None:
        """End the dialogue."""
        self._writer.close()

    def _write(self, message: JsonObject) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _take(self, message: JsonObject) -> None:
        number = message["answer"]
        future = self._asked.pop(number, None) if isinstance(number, int) else None
        if future is not None and not future.done():
            if "failed" in message:
                future.set_exception(TritonError(str(message["failed"])))
            else:
                future.set_result(message["value"])

    async def _answer(self, answers: Mapping[str, Answer], message: JsonObject) -> None:
        number = message["ask"]
        try:
            value = await answers[str(message["what"])](message)
        except TritonError as error:
            self._write({"answer": number, "failed": str(error)})
        except Exception as error:
            log.error("a question between processes failed", error=type(error).__name__, detail=str(error))
            self._write({"answer": number, "failed": f"the service failed: {error}"})
        else:
            self._write({"answer": number, "value": value})
