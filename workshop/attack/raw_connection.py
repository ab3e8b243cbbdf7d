"""The client's side of a connection: sends any bytes, and reads the HTTP answers and frames of a service."""

from __future__ import annotations

import asyncio
import fcntl
import json
import random
import socket
import ssl
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

OPEN_LIMIT_S = 20.0
ANSWER_LIMIT_S = 45.0
# The bytes that the kernel may hold for the service before the service reads them.
_IN_THE_KERNEL = 512 * 1024
# The errors of a connection that either side has cut.
CUT_OFF = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)


@dataclass
class Ended:
    """How a websocket ended: the events it received, the code of the close (None: no close), the number of pongs.

    In a foreign format, the events are messages of that format. A text that is no JSON is one too, as its `text`.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    code: int | None = None
    pongs: int = 0
    reason: str = ""  # of the close

    @property
    def error(self) -> str:
        """The code of the error that ended it, in the native protocol; empty if there was none."""
        fatal = (event for event in self.events if event.get("type") == "error" and event.get("fatal"))
        return next((str(event["code"]) for event in fatal), "")

    def number_of(self, *types: str) -> int:
        """Return how many of the events have one of these types."""
        return sum(event.get("type") in types for event in self.events)

    @property
    def text(self) -> str:
        """The text of all finals."""
        return " ".join(event["text"] for event in self.events if event.get("type") == "final")


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
                ended.events.append(_message(data))
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


# Makes websocket frames as bytes, including those that no library makes. Does no I/O.

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_LONG, _LONGER = 126, 127
# A valid mask that leaves the content readable in a report.
_MASK = bytes(4)


def _message(data: bytes) -> dict[str, Any]:
    try:
        message: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"text": data.decode()}
    return message


def frame(
    opcode: int,
    data: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    masked: bool = True,
    length: int | None = None,
    widest: bool = False,
) -> bytes:
    """Return a frame. `length`: the claimed length (default: the real one); `widest`: claim it in eight bytes."""
    claimed = len(data) if length is None else length
    first = (fin << 7) | (reserved << 4) | opcode
    if claimed < _LONG and not widest:
        head = struct.pack("!BB", first, (masked << 7) | claimed)
    elif claimed < 1 << 16 and not widest:
        head = struct.pack("!BBH", first, (masked << 7) | _LONG, claimed)
    else:
        head = struct.pack("!BBQ", first, (masked << 7) | _LONGER, claimed)
    return head + (_MASK if masked else b"") + data


def fragments(data: bytes, sizes: list[int], opcode: int = BINARY, between: bytes = b"") -> bytes:
    """Return a message in fragments of these sizes and one with the rest. `between` is put between them."""
    parts, place = [], 0
    for size in sizes:
        parts.append(data[place : place + size])
        place += size
    parts.append(data[place:])
    last = len(parts) - 1
    return between.join(
        frame(opcode if number == 0 else CONTINUATION, part, fin=number == last) for number, part in enumerate(parts)
    )


def wild_frame(rng: random.Random) -> bytes:
    """Return a random frame, in most cases a nearly valid one."""
    odd = rng.random() < 0.3
    opcode = rng.randrange(16) if odd else rng.choice((CONTINUATION, TEXT, BINARY, BINARY, PING, PONG, CLOSE))
    data = rng.randbytes(rng.choice((0, 1, 2, 3, 7, 125, 126, 127, 640, 5000)))
    if opcode == TEXT and rng.random() < 0.7:
        data = rng.choice((b"{}", b"[]", b'{"type":"keepalive"}', b'{"type":"flush"}', b'{"type":"stop"}', b"\xc3\xa9"))
    if opcode in (CLOSE, PING, PONG) and rng.random() < 0.8:
        data = data[:125]
    return frame(
        opcode,
        data,
        fin=rng.random() < 0.8,
        reserved=rng.randrange(8) if rng.random() < 0.1 else 0,
        masked=rng.random() < 0.95,
        length=rng.choice((0, 5, 1 << 16, 1 << 20, 1 << 40, (1 << 63) + 1)) if rng.random() < 0.08 else None,
        widest=rng.random() < 0.05,
    )
