"""A model is replaced during sessions: not a word is lost or doubled, and only the words show it."""

from __future__ import annotations

import asyncio
import copy
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton.repository import asr_repository, link_model
from streamer.bridge.upstreams.supervision import RETURN_S
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import Event, eventually, lasting, receive, recognise, rest, session, text
from tests.bridge.upstreams.rolled_models import check, gone, serving, states, two_models
from tests.bridge.upstreams.speaking_sessions import PIECE, speak, talk, value
from tests.samples import TWO_SEGMENTS_S, pcm
from tests.triton_processes import stubs

pytestmark = pytest.mark.usefixtures("no_answer_is_overdue")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide two exact models."""
    return two_models(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """Provide two exact models with marks and capitals, which load slowly, as they need torch."""
    return two_models(tmp_path, punctuation=True)


def spoken(events: list[Event]) -> str:
    return " ".join(str(event.get("spoken") or event["text"]) for event in events if event["type"] == "final")


async def test_no_word_is_lost(marked: Path) -> None:
    """During two rolls each session gets its own words and times, and the models change."""
    # A pause at the end of each part, so that there is a cut.
    parts = [
        [(words, audio + silence(1500).tobytes()) for words, audio in map(talk, range(n, n + 24, 8))] for n in range(4)
    ]
    written = {"written": True, "partial_words": True, "endpoint": {"longest_ms": 6000}}
    kinds: list[dict[str, Any]] = [{}, {"step_ms": 160}, written, {"live": True}]
    async with serving(marked) as (service, triton):
        wholes = [
            await recognise(
                service.url, b"".join(audio for _, audio in three), [500_000] * 5, **{**kind, "live": False}
            )
            for three, kind in zip(parts, kinds, strict=True)
        ]
        rolled = [asyncio.Event(), asyncio.Event(), asyncio.Event()]

        async def listen(three: list[tuple[str, bytes]], **kind: Any) -> list[Event]:
            async with session(service.url, **kind) as websocket:
                reading = asyncio.create_task(rest(websocket))
                for (_, audio), gate in zip(three, rolled, strict=True):
                    for place in range(0, len(audio), PIECE):
                        if place > len(audio) // 3:
                            await gate.wait()
                        await websocket.send(audio[place : place + PIECE])
                        await asyncio.sleep(0.05)
                await websocket.send('{"type":"stop"}')
                events = await reading
                assert websocket.close_code == 1000, events[-1]
            return events

        speaking = [asyncio.create_task(listen(three, **kind)) for three, kind in zip(parts, kinds, strict=True)]
        for gate, model, former in zip(rolled, ("two", "one"), ("one", "two"), strict=False):
            await eventually(lambda: sum(service.models.default.held.values()) == len(parts))
            leaving = await service.models.default.roll(model)
            assert sum(service.models.default.held.values()) == len(parts)
            gate.set()
            assert await asyncio.wait_for(leaving, 60) == [""]
            assert service.models.default.held == {model: len(parts)}
            await gone(triton, former)
        rolled[2].set()
        said = await asyncio.gather(*speaking)
        assert value(service, "streamer_moves_total") == 2 * len(parts)
        assert value(service, "streamer_recoveries_total") == 0
    for three, events, whole in zip(parts, said, wholes, strict=True):
        assert spoken(events).split() == " ".join(words for words, _ in three).split()
        check(events, whole)


async def test_the_shipped_model(tmp_path: Path) -> None:
    """With real speech, and the same weights under another name, words and their times are the same.

    Each start and end of speech is told once. Its time may differ: the new detector does not know the former audio.
    """
    for name in ("one", "two"):
        link_model(asr_repository() / "streaming_asr", tmp_path / name)
    audio = pcm("talk.flac", TWO_SEGMENTS_S) + bytes(48_000) + pcm("quilter.ogg", 3.0)
    async with serving(tmp_path) as (service, triton):
        whole = await recognise(service.url, audio, [500_000] * 3)
        assert len([event for event in whole if event["type"] == "final"]) > 1
        async with session(service.url) as websocket:
            reading = asyncio.create_task(rest(websocket))
            await websocket.send(audio[:200_000])
            leaving = await service.models.default.roll("two")
            for place in range(200_000, len(audio), 500_000):
                await websocket.send(audio[place : place + 500_000])
            assert await asyncio.wait_for(leaving, 60) == [""]
            await websocket.send('{"type":"stop"}')
            moved = await reading
        words, expected = ([event for event in each if event["type"] != "speech"] for each in (moved, whole))
        assert lasting(copy.deepcopy(words)) == lasting(copy.deepcopy(expected))
        assert "recovered" not in {event["type"] for event in moved}
        assert [event["n"] for event in moved] == list(range(2, len(moved) + 2))
        told, known = ([event for event in each if event["type"] == "speech"] for each in (moved, whole))
        assert [event["state"] for event in told] == [event["state"] for event in known]
        assert all(abs(one["at_ms"] - other["at_ms"]) < 500 for one, other in zip(told, known, strict=True))
        assert value(service, "streamer_moves_total") == 1
        await gone(triton, "one")
        assert len(list(stubs(triton.pid))) == 1


async def test_what_the_client_and_the_probes_tell(repository: Path) -> None:
    """New sessions get the new model; others stay until a cut; silent ones move; /readyz and metrics show this."""
    async with serving(repository) as (service, triton):
        async with session(service.url) as silent, session(service.url) as speaking:
            await speaking.send(say("abc").tobytes())
            while (await receive(speaking))["type"] != "partial":
                pass
            leaving = await service.models.default.roll("two")
            async with connect(service.url) as fresh:
                await fresh.send('{"type":"start"}')
                ready = await receive(fresh)
                assert (ready["model"], ready["triton_model"]) == ("default", "two")
            # A silent session moves with its next keepalive; one in the middle of a word stays.
            for _ in range(600):
                if service.models.default.held.get("one") == 1:
                    break
                await asyncio.sleep(0.1)
            assert service.models.default.held == {"two": 1, "one": 1}
            assert 'streamer_model_sequences{model="one",name="default"} 1.0' in service.metrics.exposition().decode()
            state = service._server._state()
            known = {"model": "two", "state": "loaded", "ready": True, "sequences": {"two": 1, "one": 1}}
            assert (state["models"], state["ready"]) == ({"default": known}, True)
            assert not leaving.done()
            await speaking.send('{"type":"flush"}')
            while (await receive(speaking))["type"] != "flushed":
                pass
            assert await asyncio.wait_for(leaving, 60) == [""]
            for websocket in (silent, speaking):
                await websocket.send(say("de").tobytes() + bytes(64_000))
                await websocket.send('{"type":"stop"}')
                assert text(await rest(websocket)) == "de"
        await gone(triton, "one")


async def test_after_the_limit(repository: Path) -> None:
    """A stream without a cut moves too, as if the former model had failed, and no word is lost or doubled."""
    async with serving(repository) as (service, triton):
        async with session(service.url, endpoint="off") as websocket:
            reading = asyncio.create_task(rest(websocket))
            await websocket.send(say("abc def").tobytes())
            partials = 'streamer_messages_total{type="partial"}'
            await eventually(lambda: partials in service.metrics.exposition().decode())
            leaving = await service.models.default.roll("two", 1.0)
            assert await asyncio.wait_for(leaving, 60) == [""]
            await gone(triton, "one")
            await websocket.send(say("ghi").tobytes())
            await websocket.send('{"type":"stop"}')
            events = await reading
            assert websocket.close_code == 1000
        assert text(events) == "abc def ghi"
        assert [event["type"] for event in events].count("recovered") == 1


async def test_the_former_model_has_time_to_return(repository: Path) -> None:
    """A former model without users gets time to return from its last request, because Triton might crash otherwise."""
    async with serving(repository) as (service, _):
        leaving, rolled = await service.models.default.roll("two"), time.monotonic()
        assert await asyncio.wait_for(leaving, 60) == [""]
        assert time.monotonic() - rolled >= RETURN_S


async def test_triton_dies_after_it(repository: Path) -> None:
    """An embedded server that is restarted loads only the new model."""
    words, audio = talk(2)
    async with serving(repository, limits=Limits(recover_s=30)) as (service, triton):
        assert await (await service.models.default.roll("two")) == [""]
        speaking = asyncio.create_task(speak(service.url, audio, 3.0))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(triton.kill)
        assert text(await speaking).split() == words.split()
        assert {name for name, state in states(triton).items() if state == "READY"} == {"two"}
