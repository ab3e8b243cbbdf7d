"""A proxy whose connections can be cut, stalled or refused while the server behind it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

_PIECE = 65536


class FaultyProxy:
    """Passes connections on to a server whose address may change. The address of the proxy stays the same."""

    def __init__(self, target: Callable[[], str]) -> None:
        """`target` gives host:port for each connection. It raises OSError if there is no server at present."""
        self.address = ""
        self.refusing = False  # whether connections end as soon as they are made
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def open(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen on this address of loopback. Port 0 means any free port."""
        self._server = await asyncio.start_server(self._accept, host, port)
        self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End all connections and stop listening."""
        await self.cut(for_good=True)
        self.resume()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.sleep(0)  # aborted connections are closed in the next turn of the loop

    async def cut(self, *, for_good: bool = False) -> None:
        """End all connections at once; with `for_good` also stop listening."""
        if for_good and self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def stall(self) -> None:
        """Hold back all data, but keep the connections open."""
        self._flowing.clear()

    def resume(self) -> None:
        """Pass on the data that was held back, and all later data."""
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.refusing:
                raise ConnectionRefusedError
            host, _, port = self._target().rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        self._writers.update((writer, far_writer))
        for task in (
            asyncio.create_task(self._pass_on(reader, far_writer)),
            asyncio.create_task(self._pass_on(far_reader, writer)),
        ):
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_PIECE):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
            self._writers.discard(writer)


@asynccontextmanager
async def proxy(address: str) -> AsyncIterator[tuple[str, Callable[..., Awaitable[None]]]]:
    """Run a proxy. Yields its address, and a function that cuts all connections, with `for_good` also later ones."""
    way = FaultyProxy(lambda: address)
    await way.open()
    try:
        yield way.address, way.cut
    finally:
        await way.close()
