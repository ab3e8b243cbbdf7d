"""Two models in one service: clients ask for them by public names, and a fault of one does not affect the other."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.service import Service
from streamer.bridge.upstreams.rollover import RollError
from streamer.testing.exact_repository import add_exact_model
from streamer.testing.exact_speech import say, silence
from streamer.triton.server import TritonServer
from tests.bridge.service_client import eventually, receive, recognise, rest, session, text
from tests.triton_processes import asleep, stubs

AUDIO = np.concatenate([say("abc def"), silence(300)]).tobytes()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Service, TritonServer]]:
    """Run a service whose embedded Triton has two models with two public names."""
    for name in ("one", "two", "three"):
        add_exact_model(tmp_path, name, slots=8)
    triton = TritonServer(tmp_path, models=["one", "two"])
    async with Service(triton, port=0, models={"default": "one", "fast": "two"}) as service:
        yield service, triton


async def ready(url: str, **options: Any) -> dict[str, Any]:
    """Return the first message of a session."""
    async with connect(url) as websocket:
        await websocket.send(json.dumps({"type": "start", **options}))
        return await receive(websocket)


def process_of(triton: TritonServer, model: str) -> psutil.Process:
    """Return the only process of a model."""
    [found] = [stub for stub in stubs(triton.pid) if f"/{model}/1/" in " ".join(stub.cmdline())]
    return found


async def test_two_names(served: tuple[Service, TritonServer]) -> None:
    """A session gets the model that it asks for; an unknown one is refused with the list; probes and metrics agree."""
    service, _ = served
    told = [await ready(service.url), await ready(service.url, model="fast")]
    assert [(event["model"], event["triton_model"]) for event in told] == [("default", "one"), ("fast", "two")]
    async with connect(service.url) as websocket:
        await websocket.send('{"type":"start","model":"slow"}')
        error = await receive(websocket)
        await websocket.wait_closed()
    assert (error["code"], websocket.close_code) == ("unknown_model", 4000)
    assert 'There is no model "slow" here, only default, fast.' in error["message"]
    for name in ("default", "fast"):
        assert text(await recognise(service.url, AUDIO, model=name)).split() == ["abc", "def"]
    async with session(service.url, model="fast"):
        url = f"http://127.0.0.1:{service.port}/readyz"
        state = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read()))
        assert state["models"] == {
            "default": {"model": "one", "state": "loaded", "ready": True, "sequences": {"one": 0}},
            "fast": {"model": "two", "state": "loaded", "ready": True, "sequences": {"two": 1}},
        }
        metrics = service.metrics.exposition().decode()
        assert 'streamer_model_sequences{model="two",name="fast"} 1.0' in metrics


async def test_rolling_one_of_them(served: tuple[Service, TritonServer]) -> None:
    """The public name then stands for another Triton model; sessions of the other name do not notice."""
    service, _ = served
    fast = service.models.pools["fast"]
    async with session(service.url) as other, session(service.url, model="fast") as websocket:
        with pytest.raises(RollError, match="one is already in use"):
            await fast.roll("one")
        leaving = await fast.roll("three")
        assert (await ready(service.url, model="fast"))["triton_model"] == "three"
        assert (await ready(service.url))["triton_model"] == "one"
        for each in (other, websocket):
            await each.send(AUDIO)
            await each.send('{"type":"stop"}')
            assert text(await rest(each)).split() == ["abc", "def"]
    assert await asyncio.wait_for(leaving, 60) == [""]


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_one_of_them_dies(served: tuple[Service, TritonServer]) -> None:
    """Its sessions recover, and those of the other model are not disturbed."""
    service, triton = served
    other_process = process_of(triton, "one")
    async with session(service.url) as other, session(service.url, model="fast") as websocket:
        for each in (other, websocket):
            await each.send(AUDIO[: len(AUDIO) // 4 * 2])
        dying = process_of(triton, "two")
        await eventually(lambda: asleep(dying))
        dying.kill()
        for each in (other, websocket):
            await each.send(AUDIO[len(AUDIO) // 4 * 2 :])
            await each.send('{"type":"stop"}')
        undisturbed, recovered = await asyncio.gather(rest(other), rest(websocket))
    assert text(undisturbed).split() == text(recovered).split() == ["abc", "def"]
    assert [sum(event["type"] == "recovered" for event in events) for events in (undisturbed, recovered)] == [0, 1]
    assert other_process.is_running()


@pytest.mark.usefixtures("no_answer_is_overdue")
async def test_the_server_of_both_dies(served: tuple[Service, TritonServer]) -> None:
    """The server is started again once with both models, and sessions of both go on."""
    service, triton = served
    async with session(service.url) as one, session(service.url, model="fast") as two:
        for each in (one, two):
            await each.send(AUDIO[: len(AUDIO) // 4 * 2])
        psutil.Process(triton.pid).kill()
        for each in (one, two):
            await each.send(AUDIO[len(AUDIO) // 4 * 2 :])
            await each.send('{"type":"stop"}')
        for events in await asyncio.gather(rest(one), rest(two)):
            assert text(events).split() == ["abc", "def"]
            assert sum(event["type"] == "recovered" for event in events) == 1
