"""Calls of the soak test, as Twilio sends them: what was said comes over a webhook, each event once and in order."""

from __future__ import annotations

import base64
import io
import json
from typing import Any, Final

import numpy as np
import soundfile  # type: ignore[import-untyped]
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from streamer.audio.decoder import SAMPLE_RATE
from streamer.wire.dialects import twilio
from workshop.soak.foreign_session import ForeignSession, closed
from workshop.soak.webhook_receiver import WebhookReceiver

STREAM: Final = "MZ00000000000000000000000000000000"
# Twilio has 8 kHz, at which the letters of the exact model are too short. The format says the rate.
RATE: Final = SAMPLE_RATE
CHUNK: Final = RATE // 50  # samples, of 20 ms
STOP: Final = json.dumps({"event": "stop", "streamSid": STREAM})
_BYTES: Final = 2  # of a sample


def begin(*tracks: str, call: str = "CA01", **parameters: str) -> str:
    """Return the message with which a stream begins."""
    form = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
    content = {"streamSid": STREAM, "callSid": call, "tracks": list(tracks or (twilio.INBOUND,)), "mediaFormat": form}
    return json.dumps({"event": "start", "streamSid": STREAM, "start": {**content, "customParameters": parameters}})


def media(chunk: bytes, at_ms: int, track: str = twilio.INBOUND) -> str:
    """Return a message with audio."""
    content = {"track": track, "timestamp": str(at_ms), "payload": base64.b64encode(chunk).decode()}
    return json.dumps({"event": "media", "streamSid": STREAM, "media": content})


def mulaw(samples: Any) -> bytes:
    """Return samples as a telephone has them."""
    file = io.BytesIO()
    soundfile.write(file, np.asarray(samples, "<i2"), RATE, format="RAW", subtype="ULAW")
    return file.getvalue()


class TwilioSession(ForeignSession):
    """A call with a webhook of its own."""

    async def converse(self) -> str:
        """Speak, and wait for the last event."""
        async with WebhookReceiver() as receiver:
            url = f"ws://{self.netloc}{twilio.PATH}"
            async with connect(url, compression=None, max_size=None, ping_interval=None, open_timeout=30) as websocket:
                try:
                    await self._speak(websocket, receiver.url)
                    await websocket.wait_closed()
                finally:
                    websocket.transport.abort()
                self.record.close_code = websocket.close_code
            if websocket.close_code == 1000:
                await receiver.until_ended()
            ended = closed(websocket.close_code, str(websocket.close_reason))
            self._read(receiver.events)
            return ended

    async def _speak(self, websocket: Any, webhook: str) -> None:
        rest, at = b"", 0
        try:
            await websocket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
            await websocket.send(begin(**self.ways, streamer_webhook=webhook))
            async for piece in self.pieces():
                rest += self.plan.audio[slice(*(piece or (0, 0)))]
                while len(rest) >= CHUNK * _BYTES:
                    await websocket.send(media(_chunk(rest[: CHUNK * _BYTES]), at * 1000 // RATE))
                    rest, at = rest[CHUNK * _BYTES :], at + CHUNK
            if rest := rest[: len(rest) // _BYTES * _BYTES]:
                await websocket.send(media(_chunk(rest), at * 1000 // RATE))
            await websocket.send(STOP)
        except ConnectionClosed:
            pass  # the close says why

    def _read(self, events: list[dict[str, Any]]) -> None:
        numbers = [event["data"]["number"] for event in events]
        if numbers != list(range(1, len(events) + 1)) or not events or events[-1]["type"] != "ended":
            self.record.wrong.append(f"events of a webhook came as {numbers}")
        for event in events:
            if event["type"] == "final":
                self.final(event["data"]["words"])


def _chunk(samples: bytes) -> bytes:
    return mulaw(np.frombuffer(samples, "<i2"))


SESSIONS: Final[dict[str, type[ForeignSession]]] = {"twilio": TwilioSession}
