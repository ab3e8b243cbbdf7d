"""A client of OpenAI's realtime transcription that is made of nothing but a websocket."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from streamer.testing.exact_speech import FRAME, LEVEL, UNITS, Audio, silence
from streamer.wire.dialects.openai_realtime import PATH

Event = dict[str, Any]
PATIENCE_S = 60.0
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"


def at(url: str, query: str = "intent=transcription") -> str:
    """Return the address of the realtime websocket of a service."""
    return url.rpartition("/v1/")[0] + f"{PATH}?{query}"


class RealtimeClient:
    """One connection."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.events: list[Event] = []  # everything that was received

    def send(self, type: str, **content: Any) -> None:
        """Send an event."""
        self.websocket.send(json.dumps({"type": type, **content}))

    def update(self, **settings: Any) -> Event:
        """Change settings below `audio.input`, and return the session."""
        self.send("session.update", session={"type": "transcription", "audio": {"input": settings}})
        session: Event = self.until("session.updated")["session"]
        return session

    def append(self, audio: Audio | bytes, piece: int = 9600) -> None:
        """Send audio in pieces of this size."""
        data = audio if isinstance(audio, bytes) else audio.astype("<i2").tobytes()
        for start in range(0, len(data), piece):
            encoded = base64.b64encode(data[start : start + piece]).decode()
            self.send("input_audio_buffer.append", audio=encoded)

    def receive(self) -> Event:
        """Receive the next event."""
        event: Event = json.loads(self.websocket.recv(PATIENCE_S))
        self.events.append(event)
        return event

    def until(self, type: str) -> Event:
        """Receive events up to the next one of this type."""
        while (event := self.receive())["type"] != type:
            assert event["type"] != "error", event
        return event

    def transcripts(self) -> list[str]:
        """Return the transcripts that have come."""
        return [event["transcript"] for event in self.events if event["type"] == COMPLETED]


@contextmanager
def realtime(url: str, query: str = "intent=transcription", **settings: Any) -> Iterator[RealtimeClient]:
    """Open a connection that has received its session."""
    with connect(at(url, query), compression=None, **settings) as websocket:
        client = RealtimeClient(websocket)
        client.receive()
        yield client


def slowly(text: str, rate: int) -> Audio:
    """Return speech whose letters are long enough to be recognised at any rate."""
    units = [unit for letter in text + " " for unit in (*[UNITS.index(letter)] * 4, 0, 0)]
    return np.repeat(np.array(units, dtype=np.int16) * LEVEL, FRAME * rate // 16_000)


def spoken(*said: Audio, pause_ms: int = 1500) -> Audio:
    """Return the audio of sentences, each with a pause behind it."""
    return np.concatenate([part for each in said for part in (each, silence(pause_ms))])
