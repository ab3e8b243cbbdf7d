"""The client's side of a connection: sends any bytes, and reads the HTTP answers and frames of a service."""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import ssl
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streamer.testing.attack.frames import CLOSE, PONG, TEXT, frame

OPEN_LIMIT_S = 20.0
ANSWER_LIMIT_S = 45.0
# The bytes that the kernel may hold for the service before the service reads them.
_IN_THE_KERNEL = 512 * 1024
# The errors of a connection that either side has cut.
CUT_OFF = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)


@dataclass
class Ended:
    """How a websocket ended: the events it received, the code of the close (None: no close), the number of pongs.

    In a foreign format, the events are messages of that format.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    code: int | None = None
    pongs: int = 0
    reason: str = ""  # of the close

    @property
    def error(self) -> str:
        """The code of the error that ended it, in the native protocol; empty if there was none."""
        fatal = (event for event in self.events if event["type"] == "error" and event.get("fatal"))
        return next((str(event["code"]) for event in fatal), "")

    def number_of(self, *types: str) -> int:
        """Return how many of the events have one of these types."""
        return sum(event["type"] in types for event in self.events)

    @property
    def text(self) -> str:
        """The text of all finals."""
        return " ".join(event["text"] for event in self.events if event["type"] == "final")


class RawConnection:
    """Sends bytes and reads answers. Every wait has a limit; asyncio.TimeoutError: the service was too slow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int) -> RawConnection:
        """Connect. Raises OSError."""
        return cls(*await asyncio.wait_for(asyncio.open_connection(host, port, limit=4 << 20), OPEN_LIMIT_S))

    async def send(self, data: bytes) -> None:
        """Send everything, as fast as the service reads."""
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), ANSWER_LIMIT_S)

    async def stuff(self, data: bytes, most: int, quiet_s: float = 0.5) -> int:
        """Send the data again and again without reading, until the service takes no more or `most` bytes were sent.

        Returns how many bytes the service has read at least.
        """
        transport = self._writer.transport
        transport.pause_reading()  # type: ignore[attr-defined]
        sent, still = 0, 0.0
        while sent < most and still < quiet_s and not transport.is_closing():
            if transport.get_write_buffer_size() < len(data):
                self._writer.write(data)
                sent, still = sent + len(data), 0.0
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(0.05)
                still += 0.05
        with suppress(OSError, ValueError):  # the service may have cut it off
            raw = self._writer.get_extra_info("socket")
            waiting = struct.unpack("i", fcntl.ioctl(raw, termios.TIOCOUTQ, bytes(4)))[0]
            sent -= waiting + transport.get_write_buffer_size() + _IN_THE_KERNEL
        return max(0, sent)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the status and header fields of the next answer. Raises ConnectionError."""
        data = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), ANSWER_LIMIT_S)
        first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        fields = (line.partition(":") for line in lines)
        return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}

    async def content(self, headers: dict[str, str]) -> bytes:
        """Read the body of an answer with these header fields."""
        length = int(headers.get("content-length", 0))
        return await asyncio.wait_for(self._reader.readexactly(length), ANSWER_LIMIT_S)

    async def last_chunk(self) -> None:
        """Read a body in chunks to its end."""
        await asyncio.wait_for(self._reader.readuntil(b"\r\n0\r\n\r\n"), ANSWER_LIMIT_S)

    async def rest(self) -> bytes:
        """Read everything until the end of the connection."""
        with suppress(ConnectionError):
            return await asyncio.wait_for(self._reader.read(-1), ANSWER_LIMIT_S)
        return b""

    async def over(self, within_s: float) -> bool:
        """Return whether anything arrives within these seconds; the end of the connection counts too."""
        try:
            await asyncio.wait_for(self._reader.read(1), within_s)
        except asyncio.TimeoutError:
            return False
        except ConnectionError:
            pass
        return True

    def half_close(self) -> None:
        """End the sending side of the connection."""
        with suppress(OSError):
            self._writer.write_eof()

    async def frame(self) -> tuple[int, bytes] | None:
        """Read the opcode and content of the next frame; None at the end."""
        try:
            return await asyncio.wait_for(self._frame(), ANSWER_LIMIT_S)
        except (ConnectionError, asyncio.IncompleteReadError):
            return None

    async def event(self) -> dict[str, Any] | None:
        """Read the next event; None at the end."""
        while (received := await self.frame()) is not None:
            opcode, data = received
            if opcode == TEXT:
                event: dict[str, Any] = json.loads(data)
                return event
            if opcode == CLOSE:
                return None
        return None

    async def ended(self, enough: Callable[[Ended], bool] | None = None) -> Ended:
        """Read until the end of the websocket, and answer its close. Close it when the answers are `enough`."""
        ended = Ended()
        while (received := await self.frame()) is not None:
            opcode, data = received
            if opcode == TEXT:
                ended.events.append(json.loads(data))
                if enough is not None and enough(ended):
                    enough = None
                    await self.send(frame(CLOSE, struct.pack("!H", 1000)))
            elif opcode == PONG:
                ended.pongs += 1
            elif opcode == CLOSE:
                ended.code = struct.unpack("!H", data[:2])[0] if data else 1005
                ended.reason = data[2:].decode(errors="replace")
                with suppress(OSError, RuntimeError):  # RuntimeError: the sending side has ended
                    await self.send(frame(CLOSE, data[:2]))
                break
        self.abort()
        return ended

    async def until_closed(
        self, data: bytes, enough: Callable[[Ended], bool] | None = None, *, last: bool = False
    ) -> Ended:
        """Send this, and read at the same time until the end of the websocket. Closes it when the answers are `enough`.

        `last`: end the sending side of the connection after the data.
        """

        async def send() -> None:
            await self.send(data)
            if last:
                self.half_close()

        sending = asyncio.create_task(send())
        try:
            return await self.ended(enough)
        finally:
            self.abort()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def cut_within(self, limit_s: float, data: bytes) -> bool:
        """Return whether the connection ends within these seconds. The data is sent repeatedly to find out."""
        until = asyncio.get_running_loop().time() + limit_s
        while not self._writer.transport.is_closing():
            if asyncio.get_running_loop().time() > until:
                return False
            self._writer.write(data)
            await asyncio.sleep(0.2)
        return True

    async def pongs(self, number: int) -> int:
        """Wait for this many pongs, or for the end. Returns how many arrived."""
        pongs = 0
        while pongs < number and (received := await self.frame()) is not None:
            pongs += received[0] == PONG
        return pongs

    def abort(self) -> None:
        """Drop the connection without a close."""
        self._writer.transport.abort()

    def reset(self) -> None:
        """Drop the connection with a TCP reset."""
        with suppress(OSError):
            raw = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        length = second & 127
        if length == 126:
            length = struct.unpack("!H", await self._reader.readexactly(2))[0]
        elif length == 127:
            length = struct.unpack("!Q", await self._reader.readexactly(8))[0]
        data = await self._reader.readexactly(length)
        return first & 15, data
