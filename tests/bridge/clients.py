"""What the tests of the bridge say to a service, and what they ask of the Triton behind it."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psutil
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


def live(triton: TritonServer) -> float:
    """How many streams the model itself says are open."""
    with urllib.request.urlopen(f"http://{triton.metrics_address}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("streamer_slots_live{"))


def stubs(server: int) -> Iterator[psutil.Process]:
    """The Python processes of a tritonserver: one for each instance of a model."""
    for process in psutil.Process(server).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if "triton_python_backend_stub" in " ".join(process.cmdline()):
                yield process


async def no_streams(triton: TritonServer, seconds: float = 10.0) -> None:
    """Wait until the model has no stream. One that nobody ends expires only after 15 s and more."""
    for _ in range(int(seconds * 10)):
        if await asyncio.to_thread(live, triton) == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{live(triton)} streams are still open")
