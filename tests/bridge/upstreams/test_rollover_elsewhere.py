"""The model of several Tritons that run elsewhere, also for others, is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import probe as prober
from streamer.bridge.upstreams.pool import RollError
from streamer.testing.exact_service import add_exact_model
from tests.bridge.service_client import recognise, text
from tests.bridge.upstreams.rolled_models import check, gone, states, two_models
from tests.bridge.upstreams.speaking_sessions import speak, talk

pytestmark = pytest.mark.usefixtures("no_answer_is_overdue")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide two exact models."""
    return two_models(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def tritons(repository: Path) -> Iterator[list[TritonServer]]:
    """Provide two remote Tritons, each with one model of the repository."""
    with (
        TritonServer(repository, models=["one"]) as first,
        TritonServer(repository, models=["one"]) as second,
    ):
        yield [first, second]


async def test_tritons_of_somebody_else(
    repository: Path, tritons: list[TritonServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All Tritons load the new model; the former one is unloaded only when no other bridge uses it."""
    monkeypatch.setattr("streamer.bridge.upstreams.supervision.UNUSED_S", 6.0)
    monkeypatch.setattr(prober, "EVERY_S", 1.0)
    addresses = [triton.grpc_address for triton in tritons]
    spoken = [talk(seed) for seed in range(4)]
    async with Service(addresses, port=0, models={"default": "one"}) as service:
        async with Service(addresses[0], port=0, models={"default": "one"}) as other:
            wholes = [await recognise(other.url, audio) for _, audio in spoken]
            speaking = [asyncio.create_task(speak(service.url, audio, 2.5)) for _, audio in spoken]
            elsewhere = asyncio.create_task(speak(other.url, spoken[0][1], 2.5))
            await asyncio.sleep(0.4)
            leaving = await service.models.default.roll("two")
            for events, whole in zip(await asyncio.gather(*speaking), wholes, strict=True):
                check(events, whole)
            assert service.models.tritons_ready == 2
            check(await elsewhere, wholes[0])
            await gone(tritons[1], "one")
            # The other bridge probes its model there every second, and has sessions.
            assert states(tritons[0])["one"] == "READY"
            assert text(await recognise(other.url, spoken[1][1])).split() == spoken[1][0].split()
        assert await asyncio.wait_for(leaving, 60) == ["", ""]
        await gone(tritons[0], "one")
        assert text(await recognise(service.url, spoken[2][1])).split() == spoken[2][0].split()


async def test_one_of_several_lacks_it(
    repository: Path, tritons: list[TritonServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one Triton cannot load the model, the others unload it again. Nobody is asked to load an unknown one."""
    monkeypatch.setattr("streamer.bridge.upstreams.supervision.UNUSED_S", 1.0)
    add_exact_model(tmp_path, "one")
    add_exact_model(tmp_path, "two", fault="does not load")
    words, audio = talk(3)
    with TritonServer(tmp_path, models=["one"]) as poor:
        addresses = [tritons[1].grpc_address, poor.grpc_address]
        if states(tritons[1])["one"] != "READY":
            await asyncio.to_thread(tritons[1].load, "one")
        if states(tritons[1])["two"] == "READY":
            await asyncio.to_thread(tritons[1].unload, "two")
            await gone(tritons[1], "two")
        async with Service(addresses, port=0, models={"default": "one"}) as service:
            with pytest.raises(RollError, match=f"^two cannot be used. {poor.grpc_address}: .*did not load it"):
                await service.models.default.roll("two")
            with pytest.raises(RollError, match=f"^three cannot be used. {addresses[0]}: there is no model three in "):
                await service.models.default.roll("three", on_start=lambda: pytest.fail("it was asked for"))
            assert service.models.default.model == "one"
            assert service.models.tritons_ready == 2
            await gone(tritons[1], "two")
            assert text(await recognise(service.url, audio)).split() == words.split()
