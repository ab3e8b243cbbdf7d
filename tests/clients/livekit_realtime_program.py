"""A program with LiveKit's plugin for OpenAI: realtime, with the silence that ends a turn, then a whole recording.

The only change is `base_url`. It prints the events and the text of the recording, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from livekit import rtc  # type: ignore[import-not-found,unused-ignore]
from livekit.agents import utils  # type: ignore[import-not-found,unused-ignore]
from livekit.plugins import openai  # type: ignore[import-not-found,unused-ignore]

STEP = 24_000 // 20 * 2  # bytes of 50 ms
TURNS = 2


async def main(host: str, pcm: bytes) -> None:
    """Use the service at this host and port."""
    async with utils.http_context.open():
        stt = openai.STT(base_url=f"http://{host}/v1", api_key="any", use_realtime=True)
        stream = stt.stream()

        async def speak() -> None:
            for place in range(0, len(pcm), STEP):
                part = pcm[place : place + STEP]
                stream.push_frame(rtc.AudioFrame(part, 24_000, 1, len(part) // 2))
                await asyncio.sleep(0.01)
                if place <= len(pcm) // 2 < place + STEP:
                    print("half", flush=True)

        speaking = asyncio.create_task(speak())
        events: list[Any] = []
        finals = 0
        async for event in stream:
            events.append([event.type, event.alternatives[0].text if event.alternatives else ""])
            finals += event.type == "final_transcript"
            if finals == TURNS:
                break
        await speaking
        await stream.aclose()
        await stt.aclose()
        files = openai.STT(base_url=f"http://{host}/v1", api_key="any", model="whisper-1")
        whole = await files.recognize(rtc.AudioFrame(pcm, 24_000, 1, len(pcm) // 2))
        await files.aclose()
    print(json.dumps({"events": events, "recorded": whole.alternatives[0].text}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes()))
