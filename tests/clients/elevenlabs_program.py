"""A program with elevenlabs, as its users write one: text that the client commits, then text that pauses commit.

The only change is the address of the service. It prints what the SDK made of the messages, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from elevenlabs import (  # type: ignore[import-not-found,unused-ignore]
    AudioFormat,
    CommitStrategy,
    ElevenLabs,
    RealtimeEvents,
)
from websockets.exceptions import InvalidStatus

PIECE = 3200  # 100 ms
HEADER = 44  # bytes of a WAV file
MODEL = "scribe_v2_realtime"


async def live(client: Any, pcm: bytes, commits: int, *, tells: bool = False, **options: Any) -> list[dict[str, Any]]:
    """Speak, commit, and close after so many commits. `tells`: say when half of the audio was sent."""
    got: list[dict[str, Any]] = []
    heard, complete = asyncio.Event(), asyncio.Event()
    last = "committed_transcript_with_timestamps" if options.get("include_timestamps") else "committed_transcript"

    def take(message: dict[str, Any]) -> None:
        got.append(message)
        heard.set()
        if sum(each["message_type"] == last for each in got) == commits:
            complete.set()

    asked = {"model_id": MODEL, "audio_format": AudioFormat.PCM_16000, "sample_rate": 16_000, **options}
    connection = await client.speech_to_text.realtime.connect(asked)
    for event in (
        RealtimeEvents.PARTIAL_TRANSCRIPT,
        RealtimeEvents.COMMITTED_TRANSCRIPT,
        RealtimeEvents.COMMITTED_TRANSCRIPT_WITH_TIMESTAMPS,
        RealtimeEvents.ERROR,
    ):
        connection.on(event, take)
    for place in range(0, len(pcm), PIECE):
        audio = base64.b64encode(pcm[place : place + PIECE]).decode()
        await connection.send({"audio_base_64": audio})
        if tells and place <= len(pcm) // 2 < place + PIECE:
            await asyncio.wait_for(heard.wait(), 30)
            print("half", flush=True)
    await connection.commit()
    await asyncio.wait_for(complete.wait(), 30)
    await connection.close()
    return got


async def main(host: str, pcm: bytes) -> None:
    """Use the service at this host and port."""
    # This line is all that changes.
    client = ElevenLabs(api_key="any", base_url=f"http://{host}")
    told: dict[str, Any] = {
        "manual": await live(client, pcm, 1, tells=True, include_timestamps=True),
        "vad": await live(client, pcm, 2, commit_strategy=CommitStrategy.VAD, vad_silence_threshold_secs=1.0),
    }
    try:
        await client.speech_to_text.realtime.connect(
            {"model_id": MODEL, "audio_format": AudioFormat.PCM_16000, "sample_rate": 16_000, "language_code": "xx"}
        )
    except InvalidStatus as refused:
        told["refused"] = refused.response.status_code
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes()[HEADER:]))
