"""Sessions that send their own words, at a pace."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np

from streamer.audio.decoder import SAMPLE_RATE
from streamer.bridge.service import Service
from streamer.testing.exact_speech import say, silence
from tests.bridge.service_client import Event, rest, session

PIECE = 10_240
WORDS = 14


def talk(seed: int) -> tuple[str, bytes]:
    """Return words that only this session sends, with pauses of every length, and their audio."""
    dice = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"[3 * (seed % 8) : 3 * (seed % 8) + 3]
    words = ["".join(dice.choices(letters, k=dice.randint(1, 4))) for _ in range(WORDS)]
    audio = [silence(dice.choice([0, 37, 900]))]
    for word in words:
        audio += [say(word), silence(dice.choice([0, 55, 310, 1090, 1400, 2411]))]
    return " ".join(words), np.concatenate(audio).tobytes()


async def speak(url: str, audio: bytes, pace: float = 6.0, **options: Any) -> list[Event]:
    """Return all events of some audio that is sent faster than speech."""
    async with session(url, **options) as websocket:
        reading = asyncio.create_task(rest(websocket))
        for place in range(0, len(audio), PIECE):
            await websocket.send(audio[place : place + PIECE])
            await asyncio.sleep(PIECE / 2 / SAMPLE_RATE / pace)
        await websocket.send('{"type":"stop"}')
        events = await reading
        assert websocket.close_code == 1000, events[-1]
    return events


def value(service: Service, name: str) -> float:
    """Return the value of a metric."""
    lines = service.metrics.exposition().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))
