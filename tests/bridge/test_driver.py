"""A session and its websocket: messages that come up while others are sent, flushes, and connections that are lost."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import pairwise
from string import ascii_lowercase
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.client import connect as open_websocket

from streamer.bridge.access.keys import KeyFile, make_key
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules, PortPolicy
from streamer.bridge.driver import FLUSHES_PER_S, MOST_FLUSHES, MOST_REPLACED, PIECE, FlushPace
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.session.messages import Numbered
from streamer.bridge.session.session import Session
from streamer.bridge.triton.server import TritonServer
from streamer.client import SessionError, transcribe
from streamer.client import connect as open_session
from streamer.testing.faulty_proxy import FaultyProxy, proxy
from streamer.wire.errors import CloseCode
from tests.bridge.service_client import (
    SPOKEN,
    Event,
    eventually,
    lasting,
    receive,
    recognise,
    rest,
    resume,
    said,
    serving,
    session,
    text,
)
from tests.bridge.telemetry.exposed_figures import figures, until_over
from tests.samples import pcm
from tests.triton_processes import no_streams

SLOW_S = 0.3


@pytest.fixture
def slow_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make sending slow, as with a client that reads slowly."""
    send = WebSocket.send

    async def slowly(self: WebSocket, messages: Iterable[Numbered], sent: Callable[[Numbered], None]) -> bool:
        done = await send(self, messages, sent)
        await asyncio.sleep(SLOW_S)
        return done

    monkeypatch.setattr(WebSocket, "send", slowly)


@pytest.mark.usefixtures("slow_to_send")
async def test_an_error_while_something_is_sent(triton: TritonServer) -> None:
    """The client is told what was wrong before the connection is closed."""
    async with serving(triton) as service, connect(service.url, compression=None) as websocket:
        await websocket.send('{"type":"start"}')
        assert (await receive(websocket))["type"] == "ready"
        await websocket.send('{"type":"dance"}')
        [error] = await rest(websocket)
        assert (error["n"], error["code"], websocket.close_code) == (2, "unknown_type", 4000)


@pytest.mark.fails_inside
async def test_a_fault_of_ours(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fault of the service the client is told; it is counted and logged; the session's end names the cause."""

    def broken(self: Session, data: bytes, now: float) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(Session, "receive_audio", broken)
    async with serving(triton) as service, session(service.url) as websocket:
        await websocket.send(bytes(320))
        [error] = await rest(websocket)
        assert (error["code"], error["unrecognised_ms"], websocket.close_code) == ("failed", 0, 1011)
        while service.metrics.live:  # noqa: ASYNC110 nothing tells
            await asyncio.sleep(0.01)
        told = service.metrics.exposition().decode()
    assert 'streamer_unexpected_failures_total{part="session"} 1.0' in told
    assert 'streamer_sessions_ended_total{reason="internal"} 1.0' in told


@pytest.mark.usefixtures("slow_to_send")
async def test_the_end_while_something_is_sent(triton: TritonServer) -> None:
    """The last finals and `done` come before the close, even if the channels end at different times."""
    sound = SPOKEN[:100_000]
    both = b"".join(sound[place : place + 2] + bytes(2) for place in range(0, len(sound), 2))
    async with serving(triton) as service:
        told = await recognise(service.url, both, channels=2, multichannel=True, step_ms=160)
        assert told[-1]["type"] == "done"
        assert [event["channel"] for event in told if event["type"] == "final"] == [0]


async def test_a_frame_of_a_connection_that_is_replaced(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection is closed with 4010, even if its client was about to send something."""
    close = WebSocket._close

    async def late(self: WebSocket, code: CloseCode, reason: str) -> None:
        await asyncio.sleep(SLOW_S)
        await close(self, code, reason)

    monkeypatch.setattr(WebSocket, "_close", late)
    async with (
        serving(triton) as service,
        connect(service.url, compression=None) as first,
        connect(service.url, compression=None) as second,
    ):
        await first.send('{"type":"start"}')
        token = (await receive(first))["token"]
        await second.send(json.dumps({"type": "start", "resume": {"token": token, "after": 1}}))
        assert (await receive(second))["type"] == "ready"
        await first.send(bytes(320))
        assert await rest(first) == []
        assert first.close_code == 4010
        await second.send('{"type":"stop"}')
        assert (await rest(second))[-1] == {"type": "done", "n": 2, "audio_ms": 0}


async def test_what_changes_is_logged(triton: TritonServer, caplog: pytest.LogCaptureFixture) -> None:
    """At debug level each change of state is logged for a parked and resumed session, its stream and its driver."""
    caplog.set_level(logging.DEBUG, "streamer.bridge")
    async with serving(triton) as service:
        first = await connect(service.url, compression=None)
        await first.send('{"type":"start"}')
        ready = await receive(first)
        first.transport.abort()
        while not service.metrics.live or {each.state for each in service.metrics.live} != {"parked"}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with connect(service.url, compression=None) as second:
            await second.send(resume(ready, 1))
            await second.send('{"type":"stop"}')
            assert (await rest(second))[-1]["type"] == "done"
        await until_over(service.metrics)
    changes: dict[str, list[str]] = {}
    for record in caplog.records:
        if record.levelno == logging.DEBUG:
            changes.setdefault(record.message, []).append(vars(record)["fields"]["now"])
    assert changes.pop("health") == ["well", "away", "left"]  # first it is no longer watched
    assert changes.pop("sequence") == ["opening", "open", "ended"]
    assert changes.pop("supply") == ["complete", "unwanted"]
    assert changes.pop("admission") == ["open", "closed"]
    assert changes.pop("reservation") == ["asked", "accepted"]
    changes.pop("reader", None)  # it is asked at times of its own
    # The second connection briefly had its own session.
    assert changes.pop("session") == ["streaming", "closed", "finishing", "closed"]
    assert changes.pop("client") == ["parked", "connected", "left", "left"]
    assert changes.pop("load") == ["loading", "loaded"]
    assert sorted(changes.pop("driver")) == ["ended", "ended", "passed on", "ready"]
    assert changes == {}


async def test_a_large_frame_is_taken_in_pieces(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large frame is decoded in small parts, and gives the same words."""
    sizes = list[int]()
    receive_audio = Session.receive_audio

    def noted(self: Session, data: bytes, now: float) -> None:
        sizes.append(len(data))
        receive_audio(self, data, now)

    monkeypatch.setattr(Session, "receive_audio", noted)
    audio = SPOKEN
    async with serving(triton) as service:
        at_once = await recognise(service.url, audio)
        assert sum(sizes) == len(audio)
        assert max(sizes) == PIECE
        piecewise = await recognise(service.url, audio, [PIECE - 1] * (len(audio) // PIECE))
    assert text(at_once) == text(piecewise)


async def test_hotwords_count_when_a_session_starts(shipped_triton: TritonServer) -> None:
    """A caller that used too many hotwords is told when to return; others, and sessions without hotwords, go on."""
    policy = PortPolicy(AccessRules(quotas=QuotaLimits(hotwords_per_address=100)))
    async with serving(shipped_triton, policy=policy) as service:
        async with session(service.url, hotwords=["brobdingnag", "x" * 50], channels=2, multichannel=True) as first:
            async with connect(service.url, compression=None) as second:
                await second.send(json.dumps({"type": "start", "hotwords": ["y" * 50]}))
                [error] = await rest(second)
                assert (error["code"], second.close_code) == ("hotwords_used_up", 1013)
                assert re.search(r"try again in \d+ s", second.close_reason or "")
            async with session(service.url):
                pass
            await first.send('{"type":"stop"}')
            assert (await rest(first))[-1]["type"] == "done"
        assert b'streamer_refusals_total{reason="hotwords_used_up"} 1.0' in service.metrics.exposition()


async def test_audio_before_ready_waits_for_the_hotwords(shipped_triton: TritonServer) -> None:
    """A client that sends everything at once gets the same words as one that waits for `ready`, on any channels."""
    sound = pcm("airplane.mp3")
    both = b"".join(sound[place : place + 2] * 2 for place in range(0, len(sound), 2))
    options: dict[str, Any] = {
        "hotwords": ["airplane", *(f"{way} brobdingnag" for way in ascii_lowercase)],
        "channels": 2,
    }
    async with serving(shipped_triton) as service:
        patient = await recognise(service.url, both, multichannel=True, **options)
        async with connect(service.url, compression=None) as hasty:
            await hasty.send(json.dumps({"type": "start", "multichannel": True, **options}))
            await hasty.send(both)
            await hasty.send('{"type":"stop"}')
            events = await rest(hasty)
    assert events[0]["type"] == "ready"
    for channel in (0, 1):
        mine, theirs = ([event for event in told if event.get("channel") == channel] for told in (events, patient))
        assert lasting(mine) == lasting(theirs) != []


async def test_a_flush_goes_with_the_audio_before_it(triton: TritonServer) -> None:
    """A flush right behind audio does not wait for its answer: both are one request to the model."""
    async with serving(triton) as service, session(service.url) as websocket:
        requests = [0.0]
        for audio in (b"", SPOKEN[:10_240]):
            if audio:
                await websocket.send(audio)
            await websocket.send('{"type":"flush"}')
            while (await receive(websocket))["type"] != "flushed":
                pass
            requests.append(figures(service.metrics)["streamer_answer_seconds_count"])
        assert requests[2] - requests[1] == 1


def test_the_pace_of_flushes() -> None:
    """Some messages may come at once; each further one waits; after a pause as many may come again."""
    pace = FlushPace()
    assert [pace.wait_s(100.0) for _ in range(MOST_FLUSHES)] == pytest.approx([0.0] * MOST_FLUSHES)
    assert pace.wait_s(100.0) == pytest.approx(1 / FLUSHES_PER_S)
    assert pace.wait_s(100.0 + 1 / FLUSHES_PER_S) == pytest.approx(1 / FLUSHES_PER_S)
    assert [pace.wait_s(200.0) for _ in range(MOST_FLUSHES)] == pytest.approx([0.0] * MOST_FLUSHES)


PIECE_BYTES = 10_240
START = '{"type":"start"}'
Cut = Callable[..., Awaitable[None]]


@pytest.fixture(scope="module")
def whole(triton: TritonServer) -> list[Event]:
    """Return the events of an undisturbed session."""

    async def undisturbed() -> list[Event]:
        async with serving(triton) as service:
            return lasting(await recognise(service.url, SPOKEN))

    return asyncio.run(undisturbed())


async def begun(url: str, **settings: Any) -> tuple[ClientConnection, Event]:
    """Open a session that is ready, and return it with its first message."""
    websocket = await open_websocket(url, compression=None, **settings)
    await websocket.send(START)
    ready = await receive(websocket)
    assert (ready["type"], ready["n"], ready["from_sample"]) == ("ready", 1, 0)
    return websocket, ready


async def until(websocket: ClientConnection, kind: str) -> Event:
    while (event := await receive(websocket))["type"] != kind:
        pass
    return event


@pytest.mark.parametrize("seed", range(3))
async def test_our_client_goes_on(triton: TritonServer, whole: list[Event], seed: int) -> None:
    """A connection that is cut at random moments gives the same words and times as without, and each event once."""
    dice = random.Random(seed)
    async with serving(triton) as service, proxy(service.url.split("/")[2]) as (address, cut):

        def resumes() -> float:
            return float(service.metrics.exposition().decode().split("\nstreamer_resumes_total ")[1].split()[0])

        async def cutting() -> None:
            while True:
                await asyncio.sleep(dice.uniform(0.05, 0.8))
                await cut()

        async def speak() -> Any:
            for place in range(0, len(SPOKEN), PIECE_BYTES):
                yield SPOKEN[place : place + PIECE_BYTES]
                await asyncio.sleep(0.05)
            while resumes() < 3:  # noqa: ASYNC110 nothing tells when a metric changes
                await asyncio.sleep(0.05)

        scissors = asyncio.create_task(cutting())
        try:
            events: list[Any] = [event async for event in transcribe(speak(), address)]
        finally:
            scissors.cancel()
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert lasting(events) == whole
    assert events[-1]["type"] == "done"
    await no_streams(triton)


def resumed(service: Service, times: int) -> bool:
    """Return whether this number of sessions was resumed."""
    return b"\nstreamer_resumes_total %d.0" % times in service.metrics.exposition()


async def test_a_file_at_full_speed(triton: TritonServer, whole: list[Event]) -> None:
    """Nothing is lost even if the service does not read, so that much audio is under way at the loss."""
    way = FaultyProxy(lambda: triton.grpc_address)
    await way.open()
    async with (
        Service(way.address, port=0) as service,
        proxy(service.url.split("/")[2]) as (address, cut),
        open_session(address) as session,
    ):
        way.stall()

        async def speak() -> None:
            await session.send(SPOKEN)
            await session.stop()

        async def told() -> list[Any]:
            return [session.ready, *[event async for event in session]]

        speaking, reading = asyncio.create_task(speak()), asyncio.create_task(told())
        for number in range(3):
            await eventually(lambda: b"\nstreamer_backlog_bytes 0.0" not in service.metrics.exposition())
            await cut()
            await eventually(partial(resumed, service, number + 1))
        way.resume()
        await speaking
        events = await reading
    await way.close()
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert lasting(events) == whole


async def test_flushes_are_answered_once(triton: TritonServer) -> None:
    """A flush that may or may not have arrived is answered once."""
    async with (
        serving(triton) as service,
        proxy(service.url.split("/")[2]) as (address, cut),
        open_session(address) as session,
    ):
        for number in range(4):
            await session.send(SPOKEN[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])
            await session.flush()
            if number % 2:
                await asyncio.sleep(0.05)
            await cut()
        await session.stop()
        flushed = [event["audio_ms"] async for event in session if event["type"] == "flushed"]
    assert flushed == [320, 640, 960, 1280]


async def test_by_hand(triton: TritonServer, whole: list[Event]) -> None:
    """`ready` comes with the given number and the next sample to send, then the missed messages, unchanged."""
    async with serving(triton) as service:
        first, ready = await begun(service.url)
        await first.send(SPOKEN[:200_001])
        seen = [await receive(first) for _ in range(3)]
        while (await receive(first))["n"] < 8:
            pass
        first.transport.abort()
        second = await open_websocket(service.url, compression=None)
        await second.send(resume(ready, 4))
        greeting = await receive(second)
        assert greeting == {**ready, "n": 4, "from_sample": 100_000, "flushes": 0}
        await second.send(SPOKEN[200_000:])
        await second.send('{"type":"stop"}')
        events = await rest(second)
        assert second.close_code == 1000
    assert [event["n"] for event in events] == list(range(5, len(events) + 5))
    assert lasting([*seen, *events]) == whole


async def test_finals_after_the_end(triton: TritonServer) -> None:
    """A client that lost its connection after `stop` gets the finals and `done`, even if the sequence has ended."""
    async with serving(triton) as service:
        undisturbed = await recognise(service.url, SPOKEN[:300_000])
        first, ready = await begun(service.url)
        await first.send(SPOKEN[:300_000])
        await first.send('{"type":"stop"}')
        await until(first, "partial")
        first.transport.abort()
        await no_streams(triton)
        second = await open_websocket(service.url, compression=None)
        await second.send(resume(ready, 1))
        assert (await receive(second))["from_sample"] == 150_000
        events = await rest(second)
        assert (events[-1]["type"], second.close_code) == ("done", 1000)
        assert lasting(events) == lasting(undisturbed)
        # A client that has answered the close has received everything.
        async with open_websocket(service.url) as fourth:
            await fourth.send(resume(ready, 1))
            assert (await rest(fourth))[-1]["code"] == "unknown_token"
            assert fourth.close_code == 4000


async def test_second_holder(triton: TritonServer, whole: list[Event]) -> None:
    """A client that shows the token while the first connection lives goes on, and the first is closed with 4010."""
    async with serving(triton) as service:
        first, ready = await begun(service.url)
        await first.send(SPOKEN[:100_000])
        await until(first, "partial")
        second = await open_websocket(service.url, compression=None)
        await second.send(resume(ready, 1))
        sample = (await receive(second))["from_sample"]
        await rest(first)
        assert (first.close_code, first.close_reason) == (4010, "resumed elsewhere")
        await second.send(SPOKEN[2 * sample :])
        await second.send('{"type":"stop"}')
        assert lasting(await rest(second)) == whole


async def test_too_late(triton: TritonServer) -> None:
    """After the limit the token is unknown, and the slot is free."""
    async with serving(triton, limits=Limits(resume_s=0.5)) as service:
        first, ready = await begun(service.url)
        first.transport.abort()
        await eventually(lambda: 'ended_total{reason="vanished"} 1.0' in service.metrics.exposition().decode())
        async with open_websocket(service.url) as second:
            await second.send(resume(ready, 1))
            (error,) = await rest(second)
            assert (error["code"], second.close_code) == ("unknown_token", 4000)
        await no_streams(triton)


@pytest.mark.parametrize("after", [2, 1000])
async def test_a_message_that_was_never_sent(triton: TritonServer, after: int) -> None:
    """A client that claims a message which was never sent gets an error, and the session still waits."""
    async with serving(triton) as service:
        first, ready = await begun(service.url)
        first.transport.abort()
        async with open_websocket(service.url) as second:
            await second.send(resume(ready, after))
            (error,) = await rest(second)
            assert (error["code"], second.close_code) == ("bad_resume", 4000)
        async with open_websocket(service.url) as third:
            await third.send(resume(ready, 1))
            assert (await receive(third))["type"] == "ready"


async def test_another_key(triton: TritonServer, tmp_path: Any) -> None:
    """A token needs its own key; its owner may resume even if the key has all its sessions."""
    keys = {name: make_key(name) for name in ("alice", "bob")}
    file = tmp_path / "keys"
    file.write_text("".join(f"{key.line}\n" for key in keys.values()))
    headers: dict[str, dict[str, Any]] = {
        name: {"additional_headers": {"Authorization": f"Bearer {key.secret}"}} for name, key in keys.items()
    }
    policy = PortPolicy(AccessRules(KeyFile(file), quotas=QuotaLimits(per_key=1)))
    async with serving(triton, policy=policy) as service:
        first, ready = await begun(service.url, **headers["alice"])
        first.transport.abort()
        async with open_websocket(service.url, **headers["bob"]) as second:
            await second.send(resume(ready, 1))
            (error,) = await rest(second)
            assert error["code"] == "unknown_token"
        for _ in range(3):
            third = await open_websocket(service.url, **headers["alice"])
            await third.send(resume(ready, 1))
            assert (await receive(third))["type"] == "ready"
            third.transport.abort()
        async with open_websocket(service.url, **headers["alice"]) as fourth:
            await fourth.send(START)
            (error,) = await rest(fourth)
            assert (error["code"], fourth.close_code) == ("too_many_sessions", 1013)
        fifth = await open_websocket(service.url, **headers["alice"])
        await fifth.send(resume(ready, 1))
        assert (await receive(fifth))["type"] == "ready"
        await fifth.send('{"type":"stop"}')
        assert (await rest(fifth))[-1]["type"] == "done"
        again, _ = await begun(service.url, **headers["alice"])
        await again.close()


async def test_replaced_connections_do_not_pile_up(triton: TritonServer) -> None:
    """If clients take sessions over without answering the close, only the last few connections are waited for."""
    async with serving(triton) as service:
        websocket, ready = await begun(service.url)
        silent = [websocket]
        for _ in range(2 * MOST_REPLACED):
            silent[-1].transport.pause_reading()
            silent.append(await open_websocket(service.url, compression=None))
            await silent[-1].send(resume(ready, 1))
            assert (await receive(silent[-1]))["type"] == "ready"
        waited_for = b'streamer_connections{state="websocket"} %d.0' % (1 + MOST_REPLACED)
        await eventually(lambda: waited_for in service.metrics.exposition())
        for each in silent:
            each.transport.abort()


async def test_a_goodbye_is_no_loss(triton: TritonServer) -> None:
    """A client that closes on its own cannot return, and its slot is free at once."""
    async with serving(triton) as service:
        first, ready = await begun(service.url)
        await first.close()
        await no_streams(triton)
        async with open_websocket(service.url) as second:
            await second.send(resume(ready, 1))
            assert (await rest(second))[-1]["code"] == "unknown_token"


async def test_switched_off(triton: TritonServer) -> None:
    """With limit 0, a session ends with its connection; our client says so unless it may start a new one."""
    async with (
        serving(triton, limits=Limits(resume_s=0)) as service,
        proxy(service.url.split("/")[2]) as (address, cut),
    ):
        async with open_session(address, restart=False) as session:
            await cut()
            with pytest.raises(SessionError, match=r"was lost.* does not know the session any more") as caught:
                await session.__anext__()
            assert caught.value.code == "lost"
        await no_streams(triton)


async def test_the_end_of_the_service(triton: TritonServer) -> None:
    """When the service ends, it does not wait for parked clients."""
    async with serving(triton, limits=Limits(resume_s=3600)) as service:  # longer than a test may take
        first, _ = await begun(service.url)
        first.transport.abort()
        await eventually(lambda: 'state="parked"} 1.0' in service.metrics.exposition().decode())
    await no_streams(triton)


@pytest.mark.parametrize(
    "kind", [{}, {"encoding": "mulaw", "sample_rate": 8000}, {"channels": 2, "multichannel": True}]
)
async def test_audio_of_any_division(triton: TritonServer, kind: dict[str, Any]) -> None:
    """Audio in chunks of random sizes gives the events of the same audio at once, also if flushes come between."""
    audio = {"mulaw": SPOKEN[:160_000:4], "pcm_s16le": SPOKEN[:320_000]}[kind.get("encoding", "pcm_s16le")]
    places = [len(audio) // 3 // 4 * 4, len(audio) // 2 // 4 * 4]  # of flushes

    async def speak(dice: random.Random | None) -> list[Event]:
        async with session(service.url, live=False, **kind) as websocket:
            reading = asyncio.create_task(rest(websocket))
            for begin, end in pairwise([0, *places, len(audio)]):
                at = begin
                while at < end:
                    size = end - at if dice is None else min(end - at, dice.choice([1, 20, 333, 1600, 3200, 40_000]))
                    await websocket.send(audio[at : at + size])
                    at += size
                    if dice is not None and dice.random() < 0.1:
                        await asyncio.sleep(0.02)
                await websocket.send('{"type":"flush"}' if end < len(audio) else '{"type":"stop"}')
            events = await reading
            assert websocket.close_code == 1000
        return sorted(said(events), key=lambda event: event.get("channel", -1))  # channels do not wait for each other

    async with serving(triton) as service:
        whole, *divided = await asyncio.gather(*(speak(dice) for dice in (None, random.Random(1), random.Random(2))))
    assert [event["type"] for event in whole].count("flushed") == 2
    assert divided == [whole, whole]


async def test_a_running_session_wakes_nobody(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a session just runs, neither of its tasks does: audio is held until there is a step, and answers are sent.

    A flush behind audio that is held is answered with all of it, and a client that sends tiny chunks is not idle.
    """
    ticks, frames = 0, 0
    tick, take = Session.tick, WebSocket.receive

    def counting(self: Session, now: float) -> None:
        nonlocal ticks
        ticks += 1
        tick(self, now)

    async def receiving(self: WebSocket, *arguments: Any) -> str | bytes:
        nonlocal frames
        frames += 1
        return await take(self, *arguments)

    monkeypatch.setattr(Session, "tick", counting)
    monkeypatch.setattr(WebSocket, "receive", receiving)
    async with serving(triton) as service, session(service.url, live=True) as websocket:
        reading = asyncio.create_task(rest(websocket))
        await asyncio.sleep(0.1)
        ticks = frames = 0
        for at in range(0, 96_000, 640):
            await websocket.send(SPOKEN[at : at + 640])
            await asyncio.sleep(0.02)
        assert frames <= 1
        assert ticks < 75  # of 150 chunks: twice a second, an acknowledgement may be due
        await websocket.send(SPOKEN[96_000:96_640])
        await websocket.send('{"type":"stop"}')
        events = await reading
    assert events[-1] == {"type": "done", "n": events[-1]["n"], "audio_ms": 3020}
    assert [event["type"] for event in events].count("partial") >= 5


async def test_a_client_with_tiny_chunks_is_not_idle(triton: TritonServer) -> None:
    """Audio that is held until there is a step counts as a sign of life, and silence after it does not."""
    async with serving(triton, limits=Limits(idle_s=3)) as service, session(service.url) as websocket:
        reading = asyncio.create_task(rest(websocket))
        for _ in range(5):
            await websocket.send(bytes(32))
            await asyncio.sleep(1)
        assert not reading.done()
        [*_, error] = await reading
        assert error["code"] == "idle"
