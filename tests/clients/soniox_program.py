"""A program with soniox, as its users write one: samples with ends of turns, a file, and what is refused.

The only change is the address of the service. It prints the events that the SDK has read, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from soniox import AsyncSonioxClient  # type: ignore[import-not-found,unused-ignore]
from soniox.types import RealtimeSTTConfig  # type: ignore[import-not-found,unused-ignore]

PIECE = 3200  # 100 ms
HEADER = 44  # bytes of a WAV file
MODEL = "stt-rt-v5"
RAW: dict[str, Any] = {"audio_format": "pcm_s16le", "sample_rate": 16_000, "num_channels": 1}


async def talk(client: Any, audio: bytes, *, tells: bool = False, finalizes: bool = False, **config: Any) -> list[Any]:
    """Send audio, and return the events. `tells`: say when half of the audio was sent."""
    events: list[dict[str, Any]] = []
    heard, final = asyncio.Event(), asyncio.Event()
    async with client.realtime.stt.connect(config=RealtimeSTTConfig(model=MODEL, **config)) as session:

        async def listen() -> None:
            async for event in session.receive_events():
                events.append(event.model_dump(mode="json"))
                if event.tokens:
                    heard.set()
                if any(token.text == "<fin>" for token in event.tokens):
                    final.set()

        listening = asyncio.create_task(listen())
        for place in range(0, len(audio), PIECE):
            await session.send_byte_chunk(audio[place : place + PIECE])
            if tells and place <= len(audio) // 2 < place + PIECE:
                await asyncio.wait_for(heard.wait(), 30)
                print("half", flush=True)
        if finalizes:
            await session.finalize()
            await asyncio.wait_for(final.wait(), 30)
        await session.finish()
        await asyncio.wait_for(listening, 30)
    return events


async def main(host: str, recording: bytes) -> None:
    """Use the service at this host and port."""
    # This line is all that changes.
    client = AsyncSonioxClient(api_key="any", websocket_base_url=f"ws://{host}/transcribe-websocket")
    pcm = recording[HEADER:]
    told = {
        "turns": await talk(client, pcm, tells=True, enable_endpoint_detection=True, **RAW),
        "finalized": await talk(client, pcm, finalizes=True, **RAW),
        "file": await talk(client, recording),
        "refused": await talk(client, pcm[:PIECE], translation={"type": "one_way", "target_language": "fr"}, **RAW),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes()))
