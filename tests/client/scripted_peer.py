"""Websocket servers that follow a script: what the real service hardly ever does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from streamer.client import SessionError, transcribe

Script = Callable[[ServerConnection], Awaitable[None]]
READY = '{"type":"ready","n":1}'


@asynccontextmanager
async def peer(script: Script, **options: Any) -> AsyncIterator[str]:
    """Run a websocket server that follows a script. Yields its address."""
    async with serve(script, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"127.0.0.1:{port}"


class Polite:
    """A script that keeps to the protocol and records what it gets, and when."""

    def __init__(self) -> None:
        self.texts: list[dict[str, Any]] = []
        self.sound = b""
        self.times: list[float] = []
        self.closed = asyncio.Event()

    async def __call__(self, websocket: ServerConnection) -> None:
        try:
            async for message in websocket:
                if isinstance(message, bytes):
                    self.sound += message
                    self.times.append(time.monotonic())
                    continue
                self.texts.append(json.loads(message))
                if self.texts[-1]["type"] == "start":
                    await websocket.send('{"type":"ready","n":1}')
                elif self.texts[-1]["type"] == "stop":
                    await websocket.send(f'{{"type":"done","n":2,"audio_ms":{len(self.sound) // 32}}}')
        finally:
            self.closed.set()


def says(*messages: str | bytes, code: int = 1000, reason: str = "") -> Script:
    """A script that sends these messages after the start, and closes."""

    async def script(websocket: ServerConnection) -> None:
        await websocket.recv()
        for message in messages:
            await websocket.send(message)
        await websocket.close(code, reason)

    return script


async def events_of(address: str, **options: Any) -> list[dict[str, Any]]:
    """All events for a little silence."""
    async with aclosing(transcribe([bytes(3200)], address, **options)) as events:
        told: list[Any] = [event async for event in events]
    return told


async def failure(address: str) -> SessionError:
    """The error of a session there."""
    with pytest.raises(SessionError) as caught:
        await events_of(address)
    return caught.value
