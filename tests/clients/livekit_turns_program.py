"""A program with LiveKit's plugins for services of voice agents: speech in real time.

The only change is `base_url`. It prints the events of the plugin that its third argument names, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from typing import Any

import aiohttp
from livekit import rtc  # type: ignore[import-not-found,unused-ignore]

STEP = 160 * 4  # samples


def plugin(name: str, host: str, session: aiohttp.ClientSession) -> Any:
    """Return the plugin, with another address."""
    if name == "flux":
        from livekit.plugins import deepgram  # type: ignore[import-not-found,unused-ignore]

        url = f"http://{host}/v2/listen"
        return deepgram.STTv2(base_url=url, api_key="any", http_session=session, eager_eot_threshold=0.4)
    if name == "assemblyai":
        from livekit.plugins import assemblyai  # type: ignore[import-not-found,unused-ignore]

        return assemblyai.STT(base_url=f"ws://{host}", api_key="any", http_session=session)
    if name == "elevenlabs":
        from livekit.plugins import elevenlabs  # type: ignore[import-not-found,unused-ignore]

        vad = {"vad_silence_threshold_secs": 1.0}
        base_url, model = f"http://{host}/v1", "scribe_v2_realtime"
        return elevenlabs.STT(base_url=base_url, api_key="any", http_session=session, model=model, server_vad=vad)
    if name == "speechmatics":
        from livekit.plugins import speechmatics  # type: ignore[import-not-found,unused-ignore]

        # By itself, it wants a detector of LiveKit's for the ends of turns.
        mode = speechmatics.TurnDetectionMode.VAD
        return speechmatics.STT(base_url=f"ws://{host}/v2", api_key="any", turn_detection_mode=mode)
    if name == "soniox":
        from livekit.plugins import soniox  # type: ignore[import-not-found,unused-ignore]

        return soniox.STT(base_url=f"ws://{host}/transcribe-websocket", api_key="any", http_session=session)
    raise ValueError(f"there is no plugin {name}")


async def main(host: str, path: str, name: str, enough: str = "0") -> None:
    """Use the service at this host and port. `enough`: how many finals are the end; 0 if the plugin knows it itself."""
    with wave.open(path) as file:
        pcm = file.readframes(file.getnframes())
    async with aiohttp.ClientSession() as session:
        stream = plugin(name, host, session).stream()

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
            if sum(kind == "final_transcript" for kind, _ in events) == int(enough) > 0:
                break
        await speaking
        await stream.aclose()
    print(json.dumps({"events": events}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
