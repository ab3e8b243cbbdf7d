"""Models on demand: a real Triton loads them when sessions ask, and others are let go for them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

import streamer.client
from streamer.bridge.access.keys import Key, KeyFile, make_key
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams import model_loader
from streamer.bridge.upstreams.model_loader import TURN_S, LoadedModel, MemoryBound, Turns, models_to_let_go
from streamer.bridge.upstreams.pool import RollError
from streamer.testing.exact_service import add_exact_model
from streamer.testing.exact_speech import say, silence
from streamer.wire import native_upload
from tests.bridge.service_client import Event, eventually, receive, recognise, rest, session, text
from tests.bridge.uploads.uploading import post, recording
from tests.triton_processes import stubs

AUDIO = np.concatenate([say("abc def"), silence(300)]).tobytes()
HALF = len(AUDIO) // 4 * 2
ROOM_FOR_ALL, SIZE = 10**12, 10**9
ONE, TWO, THREE = "default", "two", "three"
SOMEBODY, ANOTHER = make_key("somebody"), make_key("another")


@asynccontextmanager
async def serving(
    folder: Path, room: int = ROOM_FOR_ALL, *, policy: PortPolicy | None = None, more: Sequence[str] = ()
) -> AsyncIterator[tuple[Service, TritonServer]]:
    """Run a service with three models, and some more, of which only the first one is loaded."""
    for name in ("one", "two", "three", *more):
        if not (folder / name).exists():
            add_exact_model(folder, name, slots=3)
    triton = TritonServer(folder, models=["one"])
    models = {ONE: "one", TWO: "two", THREE: "three"} | {name: name for name in more}
    bound, limits = MemoryBound(room, dict.fromkeys(models, SIZE)), Limits(load_s=60.0)
    async with Service(triton, port=0, models=models, on_demand=bound, policy=policy, limits=limits) as service:
        yield service, triton


@pytest.fixture
def two_keys(tmp_path: Path) -> PortPolicy:
    """A port for two callers."""
    (tmp_path / "keys").write_text(f"{SOMEBODY.line}\n{ANOTHER.line}\n")
    return PortPolicy(AccessRules(KeyFile(tmp_path / "keys")))


@pytest.fixture
def given_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The given sizes count, and not what the processes of the models hold."""
    monkeypatch.setattr(TritonServer, "memory", lambda *_: None)


def spoken(service: Service, key: Key) -> connect:
    """A connection with this key."""
    return connect(service.url, additional_headers={"Authorization": f"Bearer {key.secret}"})


async def begin(websocket: ClientConnection, model: str, audio: bytes = AUDIO) -> None:
    """Begin a session that must wait for its model, and send audio meanwhile."""
    await websocket.send(json.dumps({"type": "start", "model": model}))
    await websocket.send(audio)
    assert await receive(websocket) == {"type": "starting", "n": 0, "model": model}


async def ending(websocket: ClientConnection) -> list[Event]:
    """End a session, and return the rest of its events."""
    await websocket.send('{"type":"stop"}')
    return await rest(websocket)


async def free(service: Service) -> None:
    """Wait until no session holds a slot any more."""
    await eventually(lambda: all(pool.in_use == 0 for pool in service.models.pools.values()))


async def load(service: Service, model: str) -> None:
    """Let a session load a model and end."""
    async with connect(service.url) as websocket:
        await begin(websocket, model)
        events = await ending(websocket)
    assert text(events).split() == ["abc", "def"]
    await free(service)


async def refusal(websocket: ClientConnection) -> tuple[str, str, int | None]:
    """Return code and message of the error with which a session ends, and the code of the close."""
    events = await rest(websocket)
    return events[-1]["code"], events[-1]["message"], websocket.close_code


async def refused(url: str, model: str) -> tuple[str, str, int | None]:
    """Ask for a model that cannot be loaded now, and check that the session is refused."""
    async with connect(url) as websocket:
        await websocket.send(json.dumps({"type": "start", "model": model}))
        return await refusal(websocket)


async def states(service: Service) -> Mapping[str, str]:
    """Return the state of each model, as the port reports it. The service must be ready."""
    url = f"http://127.0.0.1:{service.port}/readyz"
    told = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read()))
    assert told["ready"]
    return {name: model["state"] for name, model in told["models"].items()}


def figure(service: Service, name: str) -> float:
    """Return the value of a metric, which is named with its labels."""
    found = re.search(rf"^{re.escape(name)} (\S+)$", service.metrics.exposition().decode(), re.MULTILINE)
    assert found, name
    return float(found[1])


async def test_the_first_use_loads(tmp_path: Path) -> None:
    """Two sessions wait for one load, and all of their audio is recognised; a model whose process dies comes back."""
    async with serving(tmp_path) as (service, triton):
        assert await states(service) == {ONE: "loaded", TWO: "unloaded", THREE: "unloaded"}
        async with connect(service.url) as one, connect(service.url) as two:
            await asyncio.gather(begin(one, TWO), begin(two, TWO))
            for events in await asyncio.gather(ending(one), ending(two)):
                assert (events[0]["type"], events[0]["n"], events[0]["triton_model"]) == ("ready", 1, "two")
                assert text(events).split() == ["abc", "def"]
                assert events[-1]["type"] == "done"
        assert await states(service) == {ONE: "loaded", TWO: "loaded", THREE: "unloaded"}
        assert figure(service, 'streamer_models{state="loaded"}') == 2
        assert figure(service, 'streamer_model_loads_total{result="loaded"}') == 1
        assert figure(service, "streamer_model_load_seconds_count") == 1
        assert service.models.tritons_ready == 1
        # The format of an upload has no word for the wait.
        path = f"{native_upload.PATH}?model={THREE}"
        status, _, answer = await asyncio.to_thread(post, service.url, path, recording(say("ghi")))
        assert (status, json.loads(answer)["text"]) == (200, "ghi")
        assert (await states(service))[THREE] == "loaded"
        measured = {name: pool.memory is not None for name, pool in service.models.pools.items()}
        assert measured == {ONE: True, TWO: True, THREE: True}

        [process] = [stub for stub in stubs(triton.pid) if "/two/1/" in " ".join(stub.cmdline())]
        async with session(service.url, model=TWO) as websocket:
            await websocket.send(AUDIO[:HALF])
            process.kill()
            await websocket.send(AUDIO[HALF:])
            events = await ending(websocket)
        assert text(events).split() == ["abc", "def"]
        assert sum(event["type"] == "recovered" for event in events) == 1


@pytest.mark.usefixtures("given_sizes")
async def test_memory_for_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used model without sessions goes; if sessions use all, a newcomer waits, and is refused."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 1.0)
    monkeypatch.setattr(model_loader, "STAY_S", 0.0)
    async with serving(tmp_path, 3 * SIZE, more=["four"]) as (service, _):
        await load(service, TWO)
        await load(service, THREE)
        async with session(service.url), session(service.url, model=TWO), session(service.url, model=THREE):
            code, message, close = await refused(service.url, "four")
            assert (code, close) == ("full", 1013)
            assert "no memory for the model 'four' while sessions use three, two; try again" in message
        await free(service)
        assert text(await recognise(service.url, AUDIO, model=TWO)).split() == ["abc", "def"]
        monkeypatch.setattr(model_loader, "PATIENCE_S", 60.0)
        await load(service, "four")
        assert await states(service) == {ONE: "loaded", TWO: "loaded", THREE: "unloaded", "four": "loaded"}
        await load(service, THREE)
        assert await states(service) == {ONE: "loaded", TWO: "unloaded", THREE: "loaded", "four": "loaded"}
        assert figure(service, "streamer_models_let_go_total") == 2
        with pytest.raises(RollError, match="two is not loaded now"):
            await service.models.pools[TWO].roll("five")
        async with streamer.client.connect(service.url, {"model": TWO}) as waiting:  # our client waits, too
            await waiting.send(AUDIO)
            await waiting.stop()
            assert [event["text"] async for event in waiting if event["type"] == "final"] == ["abc def"]
        assert (await states(service))[TWO] == "loaded"


@pytest.mark.usefixtures("given_sizes")
async def test_room_for_default(tmp_path: Path, two_keys: PortPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session of one key holds a small model, and asks for others. Everybody has `default` all the time."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 1.0)
    async with serving(tmp_path, 2 * SIZE, policy=two_keys) as (service, _), spoken(service, SOMEBODY) as holding:
        await begin(holding, TWO)
        assert (await receive(holding))["type"] == "ready"
        async with spoken(service, SOMEBODY) as asking:
            await begin(asking, THREE)
            assert (await refusal(asking))[0] == "full"
        assert await states(service) == {ONE: "loaded", TWO: "loaded", THREE: "unloaded"}
        async with spoken(service, ANOTHER) as stranger:
            await stranger.send('{"type":"start"}')
            assert (await receive(stranger))["type"] == "ready"
            await stranger.send(AUDIO)
            assert text(await ending(stranger)).split() == ["abc", "def"]


@pytest.mark.usefixtures("given_sizes")
async def test_callers_take_turns(tmp_path: Path, two_keys: PortPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has had models loaded waits for those who have not, although they asked later."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 60.0)
    monkeypatch.setattr(model_loader, "TURN_S", 60.0)
    monkeypatch.setattr(model_loader, "STAY_S", 0.0)
    async with (
        serving(tmp_path, 2 * SIZE, policy=two_keys, more=["four"]) as (service, _),
        spoken(service, SOMEBODY) as first,
        spoken(service, SOMEBODY) as again,
    ):
        await begin(first, TWO)
        assert (await receive(first))["type"] == "ready"
        await begin(again, "four")
        async with spoken(service, ANOTHER) as stranger, spoken(service, SOMEBODY) as late:
            await begin(stranger, THREE)
            # The model is still loaded, but no session begins there any more: it would never be let go.
            await begin(late, TWO)
            assert text(await ending(first)).split() == ["abc", "def"]
            assert (await receive(stranger))["triton_model"] == "three"
            assert await states(service) == {ONE: "loaded", TWO: "unloaded", THREE: "loaded", "four": "unloaded"}
            assert text(await ending(stranger)).split() == ["abc", "def"]
            # The others have their turns, one after the other.
            told = await asyncio.gather(ending(again), ending(late))
            assert [text(events).split() for events in told] == [["abc", "def"]] * 2


@pytest.mark.usefixtures("given_sizes")
async def test_short_sessions_without_end(
    tmp_path: Path, two_keys: PortPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short sessions of one key, one after the other at every model, do not keep out another key."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 60.0)
    monkeypatch.setattr(model_loader, "TURN_S", 60.0)
    more = ["four", "five"]
    async with serving(tmp_path, 3 * SIZE, policy=two_keys, more=more) as (service, _):
        over = asyncio.Event()

        async def attack(model: str) -> None:
            while not over.is_set():
                async with spoken(service, SOMEBODY) as websocket:
                    await websocket.send(json.dumps({"type": "start", "model": model}))
                    await websocket.send(AUDIO)
                    await ending(websocket)

        attackers = [asyncio.create_task(attack(model)) for model in (TWO, "four", "five")]
        await eventually(lambda: figure(service, 'streamer_model_loads_total{result="loaded"}') >= 2)
        for _ in range(2):
            async with spoken(service, ANOTHER) as stranger:
                await stranger.send(json.dumps({"type": "start", "model": THREE}))
                await stranger.send(AUDIO)
                assert text(await ending(stranger)).split() == ["abc", "def"]
        over.set()
        await asyncio.gather(*attackers)


@pytest.mark.usefixtures("given_sizes")
async def test_a_turn_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for what has no room keeps others only for a turn from the models that are loaded."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 60.0)
    monkeypatch.setattr(model_loader, "STAY_S", 0.0)
    monkeypatch.setattr(model_loader, "TURN_S", 1.0)
    async with (
        serving(tmp_path, 2 * SIZE) as (service, _),
        connect(service.url) as holding,
        connect(service.url) as asking,
    ):
        await begin(holding, TWO)
        assert (await receive(holding))["type"] == "ready"
        await begin(asking, THREE)
        async with connect(service.url) as late:
            await begin(late, TWO)
            assert text(await ending(late)).split() == ["abc", "def"]
        assert (await states(service))[THREE] == "unloaded"


@pytest.mark.usefixtures("given_sizes")
async def test_how_many_wait(tmp_path: Path, two_keys: PortPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key cannot take all places of those who wait; another one has its own."""
    monkeypatch.setattr(model_loader, "PATIENCE_S", 60.0)
    monkeypatch.setattr(model_loader, "MOST_WAITING", 1)
    async with (
        serving(tmp_path, 2 * SIZE, policy=two_keys) as (service, _),
        spoken(service, SOMEBODY) as holding,
        spoken(service, SOMEBODY) as waiting,
    ):
        await begin(holding, TWO)
        assert (await receive(holding))["type"] == "ready"
        await begin(waiting, THREE)
        async with spoken(service, SOMEBODY) as late, spoken(service, ANOTHER) as stranger:
            await late.send(json.dumps({"type": "start", "model": THREE}))
            assert (await refusal(late))[0] == "full"
            await begin(stranger, THREE)
            await ending(holding)
            told = await asyncio.gather(ending(stranger), ending(waiting))
        assert [text(events).split() for events in told] == [["abc", "def"]] * 2


def test_turns() -> None:
    """It is the turn of the caller whose last turn is longest ago; of two, of the one who came first."""
    turns = Turns()
    turns.join("a", "one")
    turns.join("b", "one")
    turns.join("c", "two")
    assert turns.first(0.0) == "a"
    turns.take("a")
    assert turns.first(0.0) == "c"
    turns.take("c")
    assert turns.first(0.0) == "b"
    turns.join("c", "three")
    turns.join("c", "one")
    assert (turns.first(0.0), turns.end) == ("c", TURN_S)
    turns.leave("c", {"one"})
    assert turns.first(0.0) == "b"
    turns.leave("b", ())
    turns.leave("c", ())
    assert (turns.first(0.0), turns.end) == (None, None)


def test_a_turn_ends() -> None:
    """A turn ends after a while, and then the next one has its whole turn."""
    turns = Turns()
    turns.join("a", "one")
    turns.join("b", "two")
    assert [turns.first(now) for now in (0.0, TURN_S - 0.1, TURN_S, 2 * TURN_S)] == ["a", "a", "b", "a"]
    assert turns.end == 3 * TURN_S
    turns.join("c", "one")
    turns.leave("b", ())
    assert [turns.first(now) for now in (3 * TURN_S, 4 * TURN_S)] == ["c", "a"]


def test_how_many_turns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many callers, only the last ones are remembered."""
    monkeypatch.setattr(model_loader, "MOST_CALLERS", 2)
    turns = Turns()
    for caller in ("one", "two", "three"):
        turns.join("a", caller)
        turns.take("a")
    for number, caller in enumerate(("three", "two", "one")):
        turns.join(str(number), caller)
    assert turns.first(0.0) == "2"


async def test_a_load_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sessions that wait get the reason; there is no other attempt before a pause, and then it may succeed."""
    now = 0.0
    monkeypatch.setattr(model_loader, "_now", lambda: now)
    add_exact_model(tmp_path, "two", slots=3, fault="does not load")
    async with serving(tmp_path) as (service, _):
        async with connect(service.url) as one, connect(service.url) as other:
            await asyncio.gather(begin(one, TWO), begin(other, TWO))
            for code, message, close in await asyncio.gather(refusal(one), refusal(other)):
                assert (code, close) == ("not_ready", 1013)
                assert "The model 'two' could not be loaded (" in message
                assert "no weights" in message
                assert "after 10 s" in message
        shutil.rmtree(tmp_path / "two")
        add_exact_model(tmp_path, "two", slots=3)
        now = 9.5
        assert "after 1 s" in (await refused(service.url, TWO))[1]
        assert figure(service, 'streamer_model_loads_total{result="failed"}') == 1
        assert (await states(service))[TWO] == "failed"
        now = 10.0
        await load(service, TWO)
        assert text(await recognise(service.url, AUDIO)).split() == ["abc", "def"]


OLD = LoadedModel("old", 4, busy=False, last_use=1)
BUSY = LoadedModel("busy", 4, busy=True, last_use=2)
NEW = LoadedModel("new", 4, busy=False, last_use=3)


@pytest.mark.parametrize(
    ("needed", "room", "chosen"),
    [
        (4, 16, []),
        (4, 12, ["old"]),
        (8, 16, ["old"]),
        (8, 12, ["old", "new"]),
        (9, 12, None),
        (4, 7, None),
    ],
)
def test_the_least_recently_used_go_first(needed: int, room: int, chosen: list[str] | None) -> None:
    """As few as possible go, the least recently used first, and never one that is busy."""
    assert models_to_let_go([NEW, BUSY, OLD], needed, room) == chosen


def test_one_that_has_outgrown_the_room() -> None:
    """A model that needs more than the memory of all gets all of it, unless another one is busy."""
    assert models_to_let_go([OLD, NEW], 20, 12) == ["old", "new"]
    assert models_to_let_go([OLD, BUSY], 20, 12) is None
    assert models_to_let_go([], 20, 12) == []
