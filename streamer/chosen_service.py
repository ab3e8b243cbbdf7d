"""Which service does the work of a command: the one that was named, the one of this machine, or one of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from streamer.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.commands.arguments.parser import EMBEDDED
from streamer.timing import Timing

Provider = Callable[[], AbstractAsyncContextManager[str]]


@contextmanager
def provided(server: str | None, timing: Timing) -> Iterator[Provider]:
    """A service while this is entered; `async with provider() as url` waits until it is ready.

    One of our own is spawned here, so that it starts while the rest is imported; TritonError if that fails.
    """
    if server is None and is_ready(DEFAULT_HOST, DEFAULT_PORT):
        server = websocket_url(f"{DEFAULT_HOST}:{DEFAULT_PORT}")
    if server not in (None, EMBEDDED):
        url = server

        @asynccontextmanager
        async def elsewhere() -> AsyncIterator[str]:
            yield url

        yield elsewhere
        return
    from streamer.embedded import Embedded

    with Embedded(timing) as embedded:
        yield embedded.serving
