"""What clients get from a real service: those who keep to the protocol, make mistakes, are silent, or leave."""

from __future__ import annotations

import asyncio
import random
import socket
from itertools import pairwise

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Frame, Opcode

from streamer.base.limits import LARGEST_MESSAGE
from streamer.bridge import driver
from streamer.bridge.http import listener
from streamer.bridge.http import websocket as http_websocket
from streamer.bridge.service import Service
from streamer.bridge.session.deadlines import Limits
from streamer.bridge.triton.link import Link
from streamer.bridge.triton.server import TritonServer
from tests.bridge.service_client import (
    SPOKEN,
    START,
    eventually,
    receive,
    recognise,
    rest,
    said,
    serving,
    session,
    text,
)
from tests.triton_processes import expired_streams, no_streams


async def test_session(service: Service) -> None:
    """A recording gives numbered events, partials that grow into finals, and times that only grow."""
    audio = SPOKEN
    events = await recognise(service.url, audio)
    assert [event["n"] for event in events] == list(range(2, len(events) + 2))
    finals = [event for event in events if event["type"] == "final"]
    assert [event["segment"] for event in finals] == list(range(len(finals)))
    assert all(event["text"] for event in finals)
    assert all(before["end_ms"] <= after["start_ms"] for before, after in pairwise(finals))
    assert any(event["type"] == "partial" for event in events)
    assert {event["state"] for event in events if event["type"] == "speech"} == {"start", "end"}
    assert events[-1]["type"] == "done"
    assert events[-1]["audio_ms"] == len(audio) // 32


async def test_any_pieces(service: Service) -> None:
    """Frames of any size, also with odd numbers of bytes, give the same as one large frame."""
    audio, dice = SPOKEN, random.Random(3)
    sizes = [dice.choice([0, 1, 2, 333, 640, 9_999, 40_000]) for _ in range(60)]
    assert said(await recognise(service.url, audio, sizes)) == said(await recognise(service.url, audio))


async def test_sessions_at_once(service: Service) -> None:
    """Sessions over one link get the same as each alone."""
    clips = [SPOKEN[start * 3200 : start * 3200 + 64_000] for start in range(4)]
    alone = [said(await recognise(service.url, clip)) for clip in clips]

    async def one(number: int) -> object:
        await asyncio.sleep(number * 0.03)
        dice = random.Random(number)
        sizes = [dice.choice([640, 3333, 10_240, 30_000]) for _ in range(20)]
        return said(await recognise(service.url, clips[number % 4], sizes))

    together = await asyncio.gather(*(one(number) for number in range(16)))
    for number, events in enumerate(together):
        assert events == alone[number % 4]


async def test_options(service: Service) -> None:
    """A client does not get what it switches off."""
    events = await recognise(service.url, SPOKEN, partials=False, words=False, speech=False, step_ms=640)
    assert {event["type"] for event in events} <= {"final", "heard", "done"}
    assert text(events)
    assert not any("words" in event for event in events)


async def test_flush(service: Service) -> None:
    """A flush is answered although less than a step is waiting, and the session goes on."""
    async with session(service.url) as websocket:
        await websocket.send(SPOKEN[:50_000])
        await websocket.send('{"type":"flush"}')
        event = await receive(websocket)
        while event["type"] != "flushed":
            event = await receive(websocket)
        assert event["audio_ms"] == 1562
        await websocket.send(SPOKEN[50_000:100_000])
        await websocket.send('{"type":"stop"}')
        assert (await rest(websocket))[-1]["audio_ms"] == 3125


@pytest.mark.parametrize(
    ("frames", "code", "close_code"),
    [
        (["{"], "bad_json", 4000),
        (["hello"], "bad_json", 4000),
        ([b"\0\0"], "unexpected", 4000),
        (['{"type":"stop"}'], "unexpected", 4000),
        ([START, START], "unexpected", 4000),
        (['{"type":"start","sample_rate":7000}'], "unsupported_audio", 4001),
        (['{"type":"start","encoding":"opus"}'], "unsupported_audio", 4001),
        (['{"type":"start","colour":"red"}'], "unknown_option", 4000),
        ([START, b"\0\0\0", '{"type":"stop"}'], "odd_bytes", 4000),
    ],
)
async def test_refusal(service: Service, frames: list[str | bytes], code: str, close_code: int) -> None:
    """A mistake of a client is answered by an error with a sentence and the right close code."""
    async with connect(service.url) as websocket:
        for frame in frames:
            await websocket.send(frame)
        error = (await rest(websocket))[-1]
        assert (error["type"], error["code"], error["fatal"]) == ("error", code, True)
        assert len(error["message"].split()) > 5
        assert websocket.close_code == close_code
        assert websocket.close_reason


async def test_too_large(service: Service) -> None:
    """A message above the limit closes with 1009; one at the limit is accepted."""
    async with session(service.url) as websocket:
        await websocket.send(bytes(LARGEST_MESSAGE))
        await websocket.send(bytes(LARGEST_MESSAGE + 1))
        await rest(websocket)
        assert websocket.close_code == 1009


async def test_not_text(service: Service) -> None:
    """A text frame that is not UTF-8 closes the session, and its sequence is ended."""
    async with session(service.url) as websocket:
        await websocket.send(b"\xff\xfe", text=True)
        await rest(websocket)
        assert websocket.close_code == 1007


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x81\x82\0\0\0\0\xff\xfe",  # not UTF-8
        b"\x82\xff\0\0\0\0\x7f\0\0\0\0\0\0\0",  # larger than any message may be
        b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 5000 + b"\x81\x80\0\0\0\0",  # fragments without an end
        b"\xff" * 20,
    ],
)
async def test_nonsense_after_stop(service: Service, nonsense: bytes) -> None:
    """After `stop` a client gets all of its finals, whatever else it sends."""
    quiet = await recognise(service.url, SPOKEN[:100_000])
    async with session(service.url) as websocket:
        await websocket.send(SPOKEN[:100_000])
        await websocket.send('{"type":"stop"}')
        websocket.transport.write(nonsense)
        told = await rest(websocket)
    assert text(told) == text(quiet)
    assert [event["code"] for event in told if event["type"] == "error"] == ["after_stop"]
    assert told[-1]["type"] == "done"
    assert websocket.close_code == 1000


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_vanished_client(triton: TritonServer, way: str) -> None:
    """A client that leaves, or is lost and may not return, frees its slot in the model at once."""
    async with serving(triton, sessions=1, limits=Limits(resume_s=0)) as service:
        for _ in range(3):
            async with session(service.url) as websocket:
                await websocket.send(SPOKEN[:100_000])
                await receive(websocket)
                if way == "abort":
                    websocket.transport.abort()
            await no_streams(triton)


async def test_silence_outlives_triton(brief_triton: TritonServer) -> None:
    """A silent session is kept alive at Triton, which here forgets a sequence after two seconds."""
    async with (
        await Link.connect(brief_triton.grpc_address) as link,
        serving(brief_triton, limits=Limits(refresh_s=0.2)) as service,
        session(service.url) as websocket,
    ):
        await websocket.send(SPOKEN[:64_000])
        expired = await asyncio.to_thread(expired_streams, brief_triton)
        await link.sequence().send(b"")  # is not kept alive: when it is forgotten, the session would be, too
        await until_expired(brief_triton, expired)
        await websocket.send(SPOKEN[64_000:])
        await websocket.send('{"type":"stop"}')
        events = await rest(websocket)
        assert websocket.close_code == 1000
    async with serving(brief_triton) as service:
        assert said(events) == said(await recognise(service.url, SPOKEN))


async def test_forgotten_sequence(brief_triton: TritonServer) -> None:
    """If Triton has forgotten a sequence, another one goes on with the audio that was not final."""
    async with serving(brief_triton, limits=Limits(refresh_s=60)) as service, session(service.url) as websocket:
        expired = await asyncio.to_thread(expired_streams, brief_triton)
        await websocket.send(SPOKEN[:64_000])
        await until_expired(brief_triton, expired)
        await websocket.send(SPOKEN[64_000:])
        await websocket.send('{"type":"stop"}')
        events = await rest(websocket)
        assert websocket.close_code == 1000
        assert "recovered" in [event["type"] for event in events]
    async with serving(brief_triton) as service:
        undisturbed = await recognise(service.url, SPOKEN)
    assert said([event for event in events if event["type"] != "recovered"]) == said(undisturbed)


async def until_expired(triton: TritonServer, before: float) -> None:
    """Wait until more streams have expired than before."""
    while await asyncio.to_thread(expired_streams, triton) == before:  # noqa: ASYNC110 nothing tells
        await asyncio.sleep(0.1)


async def test_idle(triton: TritonServer) -> None:
    """Without audio or keepalive a session gets the words of its audio, and is closed with 4008."""
    async with serving(triton, limits=Limits(idle_s=2.0)) as service, session(service.url) as websocket:
        await websocket.send(SPOKEN[:96_000])
        events = await rest(websocket)
        assert text(events)
        assert (events[-1]["code"], websocket.close_code) == ("idle", 4008)


async def test_no_start(triton: TritonServer) -> None:
    """A connection without start is closed."""
    async with serving(triton, limits=Limits(start_s=0.2)) as service, connect(service.url) as websocket:
        (error,) = await rest(websocket)
        assert (error["code"], websocket.close_code) == ("no_start", 4008)


async def test_client_that_does_not_read(triton: TritonServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reads nothing is closed after a limit, and others do not notice it meanwhile."""
    monkeypatch.setattr(http_websocket, "SEND_LIMIT_S", 3.0)
    monkeypatch.setattr(listener, "SEND_BUFFER", 4096)
    monkeypatch.setattr(driver, "FLUSHES_PER_S", 1e6)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.setblocking(False)
    async with serving(triton) as service:
        host, port = service.url.split("/")[2].split(":")
        await asyncio.get_running_loop().sock_connect(slow, (host, int(port)))
        # The library reads until its queue is full, so the queue is made short and is not emptied.
        async with connect(service.url, sock=slow, compression=None, max_queue=1) as websocket:
            await websocket.send(START)
            flooding = asyncio.create_task(flood(websocket))
            others = 0
            while b'streamer_sessions_ended_total{reason="not_read"} 1.0' not in service.metrics.exposition():
                await recognise(service.url, b"")
                others += 1
                await asyncio.sleep(0.1)
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
            assert others > 1
            websocket.transport.abort()


async def flood(websocket: ClientConnection) -> None:
    """Ask for more answers than all buffers can hold."""
    while True:
        await websocket.send('{"type":"flush"}')
        await asyncio.sleep(0.0005)  # it shares its loop with the service


async def test_flushes_that_are_left_behind(triton: TritonServer) -> None:
    """Nothing stays of a client that floods with flushes and leaves without reading their answers."""
    async with serving(triton, limits=Limits(resume_s=0)) as service:
        async with session(service.url) as websocket:
            websocket.transport.write(Frame(Opcode.TEXT, b'{"type":"flush"}').serialize(mask=True) * 5000)
            await asyncio.sleep(0.1)
            assert service.metrics.live
            websocket.transport.abort()
        await eventually(lambda: not service.metrics.live)
        await eventually(lambda: not any(service.metrics.connections().values()))
        assert 'streamer_sessions_ended_total{reason="vanished"} 1.0' in service.metrics.exposition().decode()
    await no_streams(triton)
