"""The upstreams of a service without the service, for tests of admission, recovery and capacity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from streamer.bridge.triton import MODEL
from streamer.bridge.upstreams.admission import Models
from streamer.bridge.upstreams.supervision import Tritons


def models_at(*tritons: str) -> Models:
    """Return the shipped model under the name `default`, at these Tritons."""
    return Models(Tritons(tritons), {"default": MODEL})


@asynccontextmanager
async def opened(*tritons: str) -> AsyncIterator[Models]:
    """Keep the models open from entry to exit."""
    models = models_at(*tritons)
    await models.open()
    try:
        yield models
    finally:
        await models.close()


async def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition is true."""
    for _ in range(round(seconds / 0.05)):
        if true():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never became so")
