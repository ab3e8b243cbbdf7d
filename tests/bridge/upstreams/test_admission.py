"""The admission of sessions to slots, and two models in one service, whose faults do not affect each other."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import psutil
import pytest
from websockets.asyncio.client import connect

from streamer.bridge.service import Service
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.triton.link import ConnectionLost, LinkError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.admission import Admission, Models, Refused
from streamer.bridge.upstreams.pool import Reservation, RollError, UpstreamPool
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from streamer.testing.faulty_proxy import FaultyProxy
from tests.bridge.service_client import eventually, receive, recognise, rest, session, text
from tests.bridge.upstreams.opened_models import opened
from tests.triton_processes import asleep, stubs


@asynccontextmanager
async def opened_twice(triton: TritonServer) -> AsyncIterator[tuple[Models, str, Callable[[], Awaitable[None]]]]:
    """Open one Triton under two names; provide one of the names, and a function that makes that one go away."""
    way = FaultyProxy(lambda: triton.grpc_address)
    await way.open()

    async with opened(triton.grpc_address, way.address) as models:

        async def part() -> None:
            await way.close()
            for _ in range(6000):
                if models.tritons_ready == 1:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("it is still there")

        yield models, way.address, part


async def moved(reservation: Reservation) -> None:
    """Check that a stream whose upstream is lost before it began goes on elsewhere."""
    with pytest.raises(ConnectionLost):
        await reservation.begin({})
    await reservation.begin({})


async def test_at_most(triton: TritonServer) -> None:
    """Only a limited number of slots is given out, until one is given back."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        first, second = admission.take({}), admission.take({})
        assert first[0] is not second[0]
        with pytest.raises(Refused, match="All 2 sessions are taken") as refused:
            admission.take({})
        assert refused.value.code == "full"
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back(first)
        admission.take({})
        assert admission.in_use == 2


async def test_all_or_none(triton: TritonServer) -> None:
    """A session of several channels gets a slot for each, or none: it never waits with half of them."""
    metrics = Metrics()
    admission = Admission(metrics)
    async with opened(triton.grpc_address) as models:
        admission.open(models, 3)
        both = admission.take({}, 2)
        assert len(set(both)) == 2
        assert (admission.in_use, admission.sessions) == (2, 1)
        with pytest.raises(Refused, match="2 channels need 2 sessions, but only 1 of 3 are free") as refused:
            admission.take({}, 2)
        assert refused.value.code == "full"
        admission.take({})
        assert b"streamer_sequences 3.0" in metrics.exposition()
        assert b"streamer_sessions 2.0" in metrics.exposition()
        admission.give_back(both)
        assert (admission.in_use, admission.sessions) == (1, 1)


async def test_when_there_is_none(triton: TritonServer) -> None:
    """There are no slots before the recogniser is ready, after its links have ended, and after the close."""
    admission = Admission(Metrics())
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        assert admission.ready
    assert not admission.ready
    with pytest.raises(Refused, match="not ready"):
        admission.take({})
    admission.close()
    with pytest.raises(Refused, match="shutting down"):
        admission.take({})
    assert admission.in_use == 0


async def test_replaced(triton: TritonServer) -> None:
    """A stream whose sequence failed gets another slot, which counts for the same session, if an upstream is well."""
    admission = Admission(Metrics())
    async with opened(triton.grpc_address) as models:
        admission.open(models, 2)
        [lost] = admission.take({})
        admission.close()
        await lost.begin({})
        await lost.begin({"speaking": True})
        assert (admission.in_use, admission.sessions) == (1, 1)
        assert models.default.held == {"streaming_asr": 1}
        admission.give_back([lost])
        assert admission.in_use == 0
    with pytest.raises(LinkError, match="no recogniser is ready"):
        await lost.begin({})


async def test_those_who_lost_their_place_come_first(triton: TritonServer) -> None:
    """When a Triton goes away, admitted sessions get the slots that are left before new sessions do."""
    admission = Admission(Metrics())
    async with opened_twice(triton) as (models, parting, part):
        admission.open(models)
        each = admission.most // 2
        sessions = [admission.take({}) for _ in range(each + 10)]
        lost = [session for session in sessions if session[0].upstream.name == parting]
        await part()
        assert models.default.free == each - (len(sessions) - len(lost))
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for session in lost[:10]:
            admission.give_back(session)
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for [reservation] in lost[10:]:
            await moved(reservation)
        assert models.default.free == 0
        admission.give_back(sessions[-1])
        assert len(admission.take({})) == 1


async def test_what_was_found_to_be_carried(triton: TritonServer) -> None:
    """The measured number belongs to the Tritons of then: while one of two is away, half of it applies."""
    admission = Admission(Metrics())
    async with opened_twice(triton) as (models, parting, part):
        admission.open(models, capacity=6)
        assert admission.most == 6
        sessions = [admission.take({}) for _ in range(4)]
        await part()
        # The four that were admitted go on, with slots for three.
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        for session in sessions:
            if session[0].upstream.name == parting:
                await moved(session[0])
        admission.give_back(sessions.pop())
        with pytest.raises(Refused, match="taken"):
            admission.take({})
        admission.give_back(sessions.pop())
        admission.take({})


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


async def test_languages_to_choose_from(served: tuple[Service, TritonServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe says which languages a session may choose from; a model without such a choice has no such field."""
    models = served[0].models
    assert not any("languages" in state for state in cast("dict[str, dict[str, Any]]", models.state()).values())
    monkeypatch.setattr(UpstreamPool, "languages", ("de", "en"))
    assert cast("dict[str, dict[str, Any]]", models.state())["fast"]["languages"] == ("de", "en")


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
