"""A client of Deepgram, made of nothing but a websocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

Message = dict[str, Any]
PATIENCE_S = 60.0
LINEAR = "encoding=linear16&sample_rate=16000"
CLOSE = '{"type":"CloseStream"}'
FINALIZE = '{"type":"Finalize"}'
KEEPALIVE = '{"type":"KeepAlive"}'


def address(url: str, query: str) -> str:
    """Return the address of the live format at a service."""
    return f"ws://{urlsplit(url).netloc}/v1/listen?{query}"


async def receive(websocket: ClientConnection) -> Message:
    message: Message = json.loads(await asyncio.wait_for(websocket.recv(), PATIENCE_S))
    return message


async def until(websocket: ClientConnection, **fields: Any) -> list[Message]:
    """Receive messages up to the first one with these fields."""
    found: list[Message] = []
    while not found or any(found[-1].get(name) != value for name, value in fields.items()):
        found.append(await receive(websocket))
    return found


async def rest(websocket: ClientConnection) -> list[Message]:
    """Receive everything until the service closes."""
    found: list[Message] = []
    try:
        while True:
            found.append(await receive(websocket))
    except ConnectionClosed:
        return found


async def listen(url: str, query: str, said: Iterable[bytes | str]) -> tuple[list[Message], int | None, str | None]:
    """Send all of this and `CloseStream`. Return the messages, and the code and the reason of the close."""
    async with connect(address(url, query), compression=None, ping_timeout=None) as websocket:
        reading = asyncio.create_task(rest(websocket))
        for each in said:
            await websocket.send(each)
        await websocket.send(CLOSE)
        messages = await reading
        return messages, websocket.close_code, websocket.close_reason


def finals(messages: list[Message], channel: int = 0) -> list[Message]:
    """Return the final results of a channel."""
    results = [message for message in messages if message["type"] == "Results" and message["is_final"]]
    return [message for message in results if message["channel_index"][0] == channel]


def text(messages: list[Message], channel: int = 0) -> str:
    """Return the text of a channel."""
    said = (message["channel"]["alternatives"][0]["transcript"] for message in finals(messages, channel))
    return " ".join(filter(None, said))


def covered(messages: list[Message], channel: int = 0) -> float:
    """Return how many seconds the finals cover. Each must begin where the one before it ended."""
    end = 0.0
    for message in finals(messages, channel):
        assert abs(message["start"] - end) < 1e-6
        end = message["start"] + message["duration"]
    return round(end, 3)
