"""A port with a test's own routes, and a client that sends it raw bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from streamer.bridge.access.certificate import Certificate
from streamer.bridge.access.proxies import Proxies
from streamer.bridge.http.channel import ConnectionCounts
from streamer.bridge.http.connection import Terms
from streamer.bridge.http.listener import Listener
from streamer.bridge.http.routes import Route, Routes, protection
from streamer.bridge.telemetry.logs import Failures

PATIENCE_S = 60.0
HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@dataclass
class Port:
    """An open port, and its counters."""

    listener: Listener
    terms: Terms
    number: int = 0
    dropped: list[str] = field(default_factory=list)
    failed: int = 0
    unaccepted: int = 0

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number of connections in each state."""
        return self.terms.counts.numbers

    async def connect(self, data: bytes = b"") -> Peer:
        """Connect, and send this."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number)
        peer = Peer(reader, writer)
        writer.write(data)
        return peer

    async def told(self, data: bytes) -> bytes:
        """Send these bytes, and return all answers until the connection ends."""
        peer = await self.connect(data)
        try:
            return await peer.rest()
        finally:
            peer.close()

    async def until(self, **numbers: int) -> None:
        """Wait until these states have these numbers of connections."""
        await happens(lambda: all(self.numbers[state] == number for state, number in numbers.items()))


async def happens(state: Callable[[], bool]) -> None:
    """Wait until this is so."""
    for _ in range(6000):
        if state():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(state)


@dataclass
class Peer:
    """The client's end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def rest(self) -> bytes:
        """Read everything until the end."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        except ConnectionResetError:
            return b""

    async def answer(self) -> Answer:
        """Read one HTTP answer whose length is known."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        answer = Answer.parse(head)
        if "content-length" in answer.headers:
            answer.body = await asyncio.wait_for(
                self.reader.readexactly(int(answer.headers["content-length"])), PATIENCE_S
            )
        return answer

    def close(self) -> None:
        self.writer.close()


@dataclass
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @staticmethod
    def parse(data: bytes) -> Answer:
        """Read the only answer from all bytes of a connection."""
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        fields = (line.partition(":") for line in lines)
        return Answer(int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}, body)

    @property
    def error(self) -> dict[str, Any]:
        """The error in the JSON body."""
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


@asynccontextmanager
async def port(
    routes: dict[str, Route],
    *,
    head_limit_s: float = 5.0,
    certificate: Certificate | None = None,
    header_proxies: Proxies | None = None,
) -> AsyncIterator[Port]:
    """Provide an open port. At the end, every connection must have ended."""
    table = Routes("There is nothing but what the test made.")
    table.add(routes.items())

    def failed() -> None:
        opened.failed += 1

    def unaccepted() -> None:
        opened.unaccepted += 1

    dropped: list[str] = []
    terms = Terms(table, ConnectionCounts(), Failures(failed), dropped.append, protection, head_limit_s)
    opened = Port(Listener(terms, certificate, unaccepted, header_proxies), terms, dropped=dropped)
    opened.number = await opened.listener.open("127.0.0.1", 0)
    try:
        yield opened
    finally:
        opened.listener.close()
        await opened.listener.finish(0.5)
        assert not any(opened.numbers.values())
