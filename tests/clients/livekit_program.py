"""A program with LiveKit's plugin for Deepgram: speech in real time, then a whole recording.

The only change is `base_url`. It prints the events and the text of the recording, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any

import aiohttp
from livekit import rtc  # type: ignore[import-not-found,unused-ignore]
from livekit.plugins import deepgram  # type: ignore[import-not-found,unused-ignore]

STEP = 160 * 4  # samples


async def main(host: str, path: str) -> None:
    """Use the service at this host and port."""
    with wave.open(path) as file:
        pcm = file.readframes(file.getnframes())
    async with aiohttp.ClientSession() as session:
        stt = deepgram.STT(base_url=f"http://{host}/v1/listen", api_key="any", http_session=session)
        stream = stt.stream()

        async def speak() -> None:
            for place in range(0, len(pcm), 2 * STEP):
                part = pcm[place : place + 2 * STEP]
                stream.push_frame(rtc.AudioFrame(part, 16_000, 1, len(part) // 2))
                await asyncio.sleep(0.01)
                if place <= len(pcm) // 2 < place + 2 * STEP:
                    print("half", flush=True)
            stream.flush()
            stream.end_input()

        speaking = asyncio.create_task(speak())
        events: list[Any] = []
        async for event in stream:
            events.append([event.type, event.alternatives[0].text if event.alternatives else ""])
        await speaking
        await stream.aclose()
        whole = await stt.recognize(rtc.AudioFrame(pcm, 16_000, 1, len(pcm) // 2))
    print(json.dumps({"events": events, "recorded": whole.alternatives[0].text}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
