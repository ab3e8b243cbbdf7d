"""A session and its websocket: what is said while something else is being sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable

import pytest
from websockets.asyncio.client import connect

from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.session.outbox import Numbered
from streamer.triton.server import TritonServer
from streamer.wire.errors import CloseCode
from tests.bridge.service_client import receive, recognise, rest, resume, serving
from tests.bridge.telemetry.exposed_figures import until_over
from tests.samples import pcm

SLOW_S = 0.3


@pytest.fixture
def slow_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending takes a moment, as it does where a client reads slowly."""
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


@pytest.mark.usefixtures("slow_to_send")
async def test_the_end_while_something_is_sent(triton: TritonServer) -> None:
    """The last finals and `done` come before the close, also where the channels end at different times."""
    sound = pcm("airplane.mp3")
    both = b"".join(sound[place : place + 2] + bytes(2) for place in range(0, len(sound), 2))
    async with serving(triton) as service:
        told = await recognise(service.url, both, channels=2, multichannel=True, step_ms=160)
        assert told[-1]["type"] == "done"
        assert [event["channel"] for event in told if event["type"] == "final"] == [0]


async def test_a_frame_of_a_connection_that_is_replaced(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first holder is told by 4010 why it is closed, also if it was about to send something."""
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
    """At debug level each change of state of a session that was parked and came back, of its stream and its driver."""
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
            changes.setdefault(record.message, []).append(record.fields["now"])
    assert changes.pop("health") == ["well", "away", "left"]  # first it is no longer watched
    assert changes.pop("sequence") == ["opening", "open", "ended"]
    assert changes.pop("supply") == ["complete", "unwanted"]
    assert changes.pop("reservation") == ["asked", "accepted"]
    # The second connection had a session of its own for a moment.
    assert changes.pop("session") == ["streaming", "closed", "finishing", "closed"]
    assert changes.pop("client") == ["parked", "connected", "left", "left"]
    assert sorted(changes.pop("driver")) == ["ended", "ended", "passed on", "ready"]
    assert changes == {}
