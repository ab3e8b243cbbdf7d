"""A session and its websocket: messages that come up while others are being sent."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterable
from string import ascii_lowercase
from typing import Any

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.access.port_policy import PortPolicy
from streamer.bridge.access.quotas import QuotaLimits
from streamer.bridge.access.rules import AccessRules
from streamer.bridge.driver import PIECE
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.session.outbox import Numbered
from streamer.bridge.session.session import Session
from streamer.triton.server import TritonServer
from streamer.wire.errors import CloseCode
from tests.bridge.service_client import SPOKEN, lasting, receive, recognise, rest, resume, serving, session, text
from tests.bridge.telemetry.exposed_figures import figures, until_over
from tests.samples import pcm

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
