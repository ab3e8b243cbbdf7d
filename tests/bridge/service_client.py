"""A client of a service, made of nothing but a websocket, for tests of the bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.decoder import SAMPLE_RATE
from streamer.bridge.triton.server import TritonServer
from streamer.testing.exact_speech import say, silence

if TYPE_CHECKING:
    from streamer.bridge.service import Service

Event = dict[str, Any]
PATIENCE_S = 60.0
PIECE_S, PACE = 0.32, 8.0
# In the middle of the audio, with a segment under way.
BREAK_AT = 0.45
Break = Callable[..., Awaitable[None]]
START = '{"type":"start"}'
WORDS = (
    "somebody speaks quietly because everybody listens",
    "another sentence follows after a pause and goes on for some seconds",
)
# Two segments of 6 and 8 s, for an exact model.
SPOKEN = np.concatenate([say(WORDS[0]), silence(1500), say(WORDS[1])]).tobytes()


def serving(triton: TritonServer, **settings: Any) -> Service:
    """Run a service on any free port, in front of a Triton that others use too."""
    from streamer.bridge.service import Service  # clients in a light environment lack its packages

    return Service(triton.grpc_address, port=0, **settings)


@asynccontextmanager
async def session(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
    """Open a websocket with a session that is ready."""
    async with connect(url, compression=None) as websocket:
        await websocket.send(json.dumps({"type": "start", **options}))
        assert (await receive(websocket))["type"] == "ready"
        yield websocket


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition is true, which happens just after the client has seen the close."""
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.02)
    assert holds()


async def receive(websocket: ClientConnection, patience_s: float = PATIENCE_S) -> Event:
    event: Event = json.loads(await asyncio.wait_for(websocket.recv(), patience_s))
    return event


async def rest(websocket: ClientConnection, patience_s: float = PATIENCE_S) -> list[Event]:
    """Read all events until the service closes."""

    events: list[Event] = []
    with suppress(ConnectionClosed):  # the caller checks the close code
        while True:
            events.append(await receive(websocket, patience_s))
    return events


async def recognise(url: str, audio: bytes, sizes: Iterable[int] = (), **options: Any) -> list[Event]:
    """Return all events after `ready` for some audio, sent in pieces of these sizes and the rest at once."""
    async with session(url, **options) as websocket:
        reading = asyncio.create_task(rest(websocket))
        place = 0
        for size in (*sizes, len(audio)):
            await websocket.send(audio[place : place + size])
            place += size
        await websocket.send('{"type":"stop"}')
        events = await reading
        assert websocket.close_code == 1000
    return events


def said(events: list[Event]) -> list[Event]:
    """Return what was recognised: without `heard`, which depends on the pace, and without what is counted with it.

    Confidences are rounded because they may differ in the last digit.
    """
    kept = []
    for event in events:
        if event["type"] != "heard":
            event = {**event, "n": 0, "confidence": round(event.get("confidence", 0), 1)}
            event["words"] = [(word["word"], word["start_ms"], word["end_ms"]) for word in event.get("words", ())]
            kept.append(event)
    return kept


def text(events: list[Event]) -> str:
    return " ".join(event["text"] for event in events if event["type"] == "final")


def lasting(events: list[Event]) -> list[Event]:
    """Return finals and speech: texts, words and times."""
    kept = [{**event, "n": 0} for event in events if event["type"] in ("final", "speech")]
    for event in kept:
        event.pop("confidence", None)
        for word in event.get("words", ()):
            word.pop("confidence")
    return kept


def resume(ready: Event, after: int) -> str:
    return json.dumps({"type": "start", "resume": {"token": ready["token"], "after": after}})


async def disturbed(
    url: str, breaking: Break, audio: bytes, *, patience_s: float = PATIENCE_S, **options: Any
) -> list[Event]:
    """Return all events of the audio, sent faster than speech, with a fault on the way.

    `patience_s`: how long to wait for an event.
    """
    async with session(url, **options) as websocket:
        reading = asyncio.create_task(rest(websocket, patience_s))
        piece = int(PIECE_S * SAMPLE_RATE) * 2
        broken = False
        for place in range(0, len(audio), piece):
            if not broken and place >= BREAK_AT * len(audio):
                await breaking()
                broken = True
            await websocket.send(audio[place : place + piece])
            await asyncio.sleep(PIECE_S / PACE)
        await websocket.send('{"type":"stop"}')
        events = await reading
        assert websocket.close_code == 1000, events[-1]
    return events
