"""A call as Twilio makes it: the request signed by Twilio's package, the audio made by pipecat's serializer for Twilio.

There is no client of Twilio's: its servers are the client. It prints how the websocket ended, and the statuses of
requests with wrong signatures, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any

import numpy as np
from pipecat.frames.frames import OutputAudioRawFrame  # type: ignore[import-not-found,unused-ignore]
from pipecat.serializers.twilio import TwilioFrameSerializer  # type: ignore[import-not-found,unused-ignore]
from twilio.request_validator import (  # type: ignore[import-not-found,unused-ignore]
    HMAC_SHA256,
    SIGNATURE_HEADER,
    SIGNATURE_SETTINGS_HEADER,
    RequestValidator,
)
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

STREAM, RATE = "MZ01", 8000
CHUNK = RATE // 50 * 2  # bytes of 20 ms


async def status(address: str, headers: dict[str, str]) -> int:
    """Return the status of the answer to a request for a stream."""
    try:
        async with connect(address, additional_headers=headers):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


async def main(host: str, path: str, token: str, webhook: str) -> None:
    """Use the service at this host and port."""
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")[::2].tobytes()
    address, signed = f"ws://{host}/twilio", f"wss://{host}/twilio"
    validator, settings = RequestValidator(token), {SIGNATURE_SETTINGS_HEADER: "key=one,algorithm=HMAC_SHA256"}
    right = {SIGNATURE_HEADER: validator.compute_signature(signed, {})}
    newer = {SIGNATURE_HEADER: validator.compute_signature(signed, {}, HMAC_SHA256), **settings}
    told: dict[str, Any] = {
        "statuses": [
            await status(address, {}),
            await status(address, {SIGNATURE_HEADER: RequestValidator("another").compute_signature(signed, {})}),
            await status(address, {SIGNATURE_HEADER: validator.compute_signature("wss://else.example/twilio", {})}),
            await status(address, {**newer, SIGNATURE_SETTINGS_HEADER: ""}),
            await status(address, newer),
        ]
    }
    serializer = TwilioFrameSerializer(STREAM, params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
    async with connect(address, additional_headers=right) as websocket:
        form = {"encoding": "audio/x-mulaw", "sampleRate": RATE, "channels": 1}
        start = {"streamSid": STREAM, "callSid": "CA02", "tracks": ["inbound"], "mediaFormat": form}
        start["customParameters"] = {"streamer_webhook": webhook}
        await websocket.send(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        await websocket.send(json.dumps({"event": "start", "streamSid": STREAM, "start": start}))
        for place in range(0, len(samples), CHUNK):
            await websocket.send(
                await serializer.serialize(OutputAudioRawFrame(samples[place : place + CHUNK], RATE, 1))
            )
            await asyncio.sleep(0.002)
            if place <= len(samples) // 2 < place + CHUNK:
                print("half", flush=True)
        await websocket.send(json.dumps({"event": "stop", "streamSid": STREAM, "stop": {"callSid": "CA02"}}))
        await websocket.wait_closed()
    told["close"] = websocket.close_code
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
