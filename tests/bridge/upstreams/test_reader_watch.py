"""A bridge mends the reader of its Triton, while sessions go on without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import tritonclient.grpc as triton_client

from streamer.base.limits import READER
from streamer.bridge.service import Service
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.link import Dialer
from streamer.bridge.triton.repository import asr_repository
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import reader_watch
from streamer.bridge.upstreams.reader_watch import ReaderWatch
from streamer.bridge.upstreams.supervision import Tritons
from streamer.models.readers import find_reader
from streamer.testing.exact_service import exact_repository
from streamer.testing.faulty_proxy import FaultyProxy
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


@dataclass(frozen=True)
class CountingDialer(Dialer):
    """Remembers to which addresses it has opened channels."""

    opened: list[str] = field(default_factory=list)

    def channel(self, address: str) -> Any:
        self.opened.append(address)
        return super().channel(address)


async def test_one_channel_for_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept while the Triton answers, and opened again when the Triton has come back."""
    monkeypatch.setattr(reader_watch, "EVERY_S", 0.02)
    repository = exact_repository(tmp_path, reader=True)
    dial = CountingDialer()
    with TritonServer(repository, models=[READER]) as server:
        proxy = FaultyProxy(lambda: server.grpc_address)
        await proxy.open()
        tritons = Tritons([proxy.address], dial)
        await tritons.find()
        watch = ReaderWatch(tritons)
        watching = asyncio.create_task(watch.follow())
        try:
            client = triton_client.InferenceServerClient(server.grpc_address)

            def questions() -> int:
                return int(client.get_inference_statistics(READER).model_stats[0].inference_count)

            await until(lambda: questions() >= 5)
            assert watch.ready == 1
            assert len(dial.opened) == 1
            proxy.refusing = True
            await proxy.cut()
            await until(lambda: watch.ready == 0)
            proxy.refusing = False
            await until(lambda: watch.ready == 1)
            count = len(dial.opened)
            before = await asyncio.to_thread(questions)
            await until(lambda: questions() >= before + 5)
            assert len(dial.opened) == count > 1
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await proxy.close()
