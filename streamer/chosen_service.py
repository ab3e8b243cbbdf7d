"""Which service does the work of a command: the one that was named, the one of this machine, or one of our own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Final

from streamer.address import DEFAULT_HOST, DEFAULT_PORT, is_ready, websocket_url
from streamer.timing import Timing
from streamer.triton import TritonError

EMBEDDED: Final = "embedded"  # stands where a URL does, for a service of our own

ReadyService = Callable[[], AbstractAsyncContextManager[str]]


def chosen(server: str | None) -> str:
    """The URL of the service to use, or EMBEDDED; without a name it is that of this machine if it is ready."""
    if server is not None:
        return server
    if is_ready(DEFAULT_HOST, DEFAULT_PORT):
        return websocket_url(f"{DEFAULT_HOST}:{DEFAULT_PORT}")
    return EMBEDDED


@contextmanager
def chosen_service(server: str | None, timing: Timing) -> Iterator[ReadyService]:
    """A service while this is entered; `async with ready_service() as url` waits until it is ready.

    One of our own is spawned here, so that it starts while the rest is imported; TritonError if that fails.
    """
    url = chosen(server)
    if url != EMBEDDED:

        @asynccontextmanager
        async def elsewhere() -> AsyncIterator[str]:
            yield url

        yield elsewhere
        return
    if sys.platform != "linux":
        raise TritonError(
            "no service was named, none is ready on this machine, and Triton, which one of our own would need, "
            "runs on Linux only: name a service with --server."
        )
    from streamer.embedded import Embedded

    with Embedded(timing) as embedded:
        yield embedded.serving
