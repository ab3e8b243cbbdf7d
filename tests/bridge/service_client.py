"""A client of a service that has nothing but a websocket: what tests of the bridge say, and what they are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.bridge.service import Service
from streamer.triton.server import TritonServer

Event = dict[str, Any]
PATIENCE_S = 60.0


def serving(triton: TritonServer, **settings: Any) -> Service:
    """A service of its own, on any port, in front of a Triton that others use too."""
    return Service(triton.grpc_address, port=0, **settings)


@asynccontextmanager
async def session(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
    """A websocket with a session that is ready."""
    async with connect(url, compression=None) as websocket:
        await websocket.send(json.dumps({"type": "start", **options}))
        assert (await receive(websocket))["type"] == "ready"
        yield websocket


async def receive(websocket: ClientConnection) -> Event:
    event: Event = json.loads(await asyncio.wait_for(websocket.recv(), PATIENCE_S))
    return event


async def rest(websocket: ClientConnection) -> list[Event]:
    """All events until the service closes."""

    events: list[Event] = []
    with suppress(ConnectionClosed):  # with which code is for the caller to judge
        while True:
            events.append(await receive(websocket))
    return events


async def recognise(url: str, audio: bytes, sizes: Iterable[int] = (), **options: Any) -> list[Event]:
    """All events after `ready` of some audio, sent in pieces of these sizes and what is left at once."""
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
    """What was understood: without `heard`, which depends on the pace, and what is counted with it.

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
    """Finals and speech: texts, words and times."""
    kept = [{**event, "n": 0} for event in events if event["type"] in ("final", "speech")]
    for event in kept:
        event.pop("confidence", None)
        for word in event.get("words", ()):
            word.pop("confidence")
    return kept


def resume(ready: Event, after: int) -> str:
    return json.dumps({"type": "start", "resume": {"token": ready["token"], "after": after}})
