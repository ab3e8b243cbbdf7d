"""A bridge mends the reader of its Triton, while sessions go on without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psutil

from streamer.base.limits import READER
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.models.readers import find_reader
from tests.triton_processes import asleep, stubs


def readers(triton: TritonServer) -> list[psutil.Process]:
    return [process for process in stubs(triton.pid) if f"/{READER}/" in " ".join(process.cmdline())]


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if await asyncio.to_thread(condition):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


async def test_a_reader_that_dies_is_loaded_again() -> None:
    """Triton itself would never start its process again. The recogniser's process stays."""
    triton = TritonServer(
        asr_repository(), models=[MODEL], instances=1, reader=find_reader("moonshine-tiny"), private=True
    )
    async with Service(triton, port=0) as service:
        await until(lambda: service.models.readers_ready == 1)
        others = {process.pid for process in stubs(triton.pid)}
        [first] = readers(triton)
        while not asleep(first):
            pass
        first.kill()
        await until(lambda: [process.pid for process in readers(triton)] not in ([], [first.pid]))
        await until(lambda: service.models.readers_ready == 1)
        assert others - {first.pid} < {process.pid for process in stubs(triton.pid)}
        assert service.models.default.ready


async def test_a_triton_without_a_reader() -> None:
    """There is nothing to mend."""
    triton = TritonServer(asr_repository(), models=[MODEL], instances=1, private=True)
    async with Service(triton, port=0) as service:
        await asyncio.sleep(0)
        assert service.models.readers_ready == 0
