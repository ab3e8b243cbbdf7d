"""A model that cannot replace another one: it is unloaded, the reason is reported, and sessions do not notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from streamer.bridge.service import Service
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import probe
from streamer.bridge.upstreams import probe as prober
from streamer.bridge.upstreams.pool import RollError
from streamer.testing.exact_service import FAULTS, add_exact_model
from streamer.testing.exact_speech import say
from tests.bridge.service_client import recognise, session, text
from tests.bridge.upstreams.rolled_models import check, gone, serving, states, two_models
from tests.bridge.upstreams.speaking_sessions import speak, talk, value

pytestmark = pytest.mark.usefixtures("no_answer_is_overdue")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide two exact models."""
    return two_models(tmp_path_factory.mktemp("repository"))


async def test_a_model_that_cannot_work(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed model is unloaded, the reason reported, and sessions do not notice."""
    monkeypatch.setattr(prober, "FIRST_ANSWER_LIMIT_S", 8.0)  # the wait for a model that hangs
    # The model in use may be slow while others load. That is no failure.
    monkeypatch.setattr(prober, "ANSWER_LIMIT_S", probe.LONGEST_S)
    words, audio = talk(1)
    async with serving(repository) as (service, triton):
        whole = await recognise(service.url, audio)
        assert text(whole).split() == words.split()
        for fault in FAULTS.keys() - {"hangs later", "reads again slowly"}:
            name = fault.replace(" ", "_")
            add_exact_model(repository, name, fault=fault)
            speaking = asyncio.create_task(speak(service.url, audio, 8.0))
            await asyncio.sleep(0.3)
            with pytest.raises(RollError, match=f"^{name} cannot be used. own: "):
                await service.models.default.roll(name)
            assert service.models.default.model == "one"
            check(await speaking, whole)
            assert value(service, "streamer_moves_total") == 0
            await gone(triton, name)
            assert states(triton)["one"] == "READY"


async def test_what_cannot_be_rolled_to(repository: Path) -> None:
    """A model that does not exist, or is in use, is named."""
    async with serving(repository) as (service, _):
        with pytest.raises(RollError, match="there is no model three in "):
            await service.models.default.roll("three")
        with pytest.raises(RollError, match="one is already in use"):
            await service.models.default.roll("one")


async def test_a_model_with_too_few_places(tmp_path: Path) -> None:
    """If the new model has too few slots for all sessions, they stay where they are."""
    add_exact_model(tmp_path, "one", slots=8)
    add_exact_model(tmp_path, "small", slots=2)
    async with Service(TritonServer(tmp_path, models=["one"]), port=0, models={"default": "one"}) as service:
        async with session(service.url), session(service.url):
            with pytest.raises(RollError, match="It has slots for 1 sequences, but sessions hold 2"):
                await service.models.default.roll("small")
        assert await recognise(service.url, say("abc").tobytes())
