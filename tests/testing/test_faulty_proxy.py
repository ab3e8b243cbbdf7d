"""A proxy with faults, in front of a server that sends everything back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from streamer.testing import FaultyProxy


@pytest.fixture
async def way() -> AsyncIterator[FaultyProxy]:
    """Provide the proxy in front of a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    way = FaultyProxy(lambda: f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await way.open()
    yield way
    await way.close()
    server.close()


async def opened(way: FaultyProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that works."""
    host, _, port = way.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"a")
    assert await reader.read(1) == b"a"
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the connection has ended."""
    try:
        return await asyncio.wait_for(reader.read(1), 60) == b""
    except ConnectionError:
        return True


async def test_a_cut_ends_all_connections_and_lets_new_ones_come(way: FaultyProxy) -> None:
    """A cut ends all connections; new ones are possible, unless it is permanent."""
    for good in (False, True):
        reader, writer = await opened(way)
        await way.cut(for_good=good)
        assert await ended(reader)
        writer.close()
    with pytest.raises(ConnectionError):
        await opened(way)


async def test_a_stall_holds_what_is_on_its_way(way: FaultyProxy) -> None:
    """Data is held back during a stall, and arrives afterwards."""
    reader, writer = await opened(way)
    way.stall()
    writer.write(b"b")
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.1)
    way.resume()
    assert await asyncio.wait_for(reader.read(1), 60) == b"b"
    writer.close()


async def test_connections_are_refused(way: FaultyProxy) -> None:
    """Refused connections end as soon as they are made."""
    way.refusing = True
    host, _, port = way.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    assert await ended(reader)
    writer.close()


async def test_no_server_is_as_if_nobody_listened() -> None:
    """Without a server behind the proxy, a connection ends."""

    def nowhere() -> str:
        raise ConnectionRefusedError

    way = FaultyProxy(nowhere)
    await way.open()
    host, _, port = way.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    assert await ended(reader)
    writer.close()
    await way.close()
