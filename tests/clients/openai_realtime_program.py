"""Programs with the original openai and openai-agents, as their users write them, in realtime.

The only change is the address of the service. It prints what the clients made of the events, as JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from agents.voice import (  # type: ignore[import-not-found,unused-ignore]
    OpenAISTTModel,
    StreamedAudioInput,
    STTModelSettings,
)
from openai import AsyncOpenAI, OpenAI  # type: ignore[import-not-found,unused-ignore]

PIECE = 9600  # bytes: 200 ms
COMPLETED = "conversation.item.input_audio_transcription.completed"


def committed(host: str, pcm: bytes) -> list[dict[str, Any]]:
    """The SDK itself: one commit at the end."""
    client = OpenAI(api_key="any", base_url=f"http://{host}/v1")  # this line is all that changes
    got: list[dict[str, Any]] = []
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        transcription = {"model": "gpt-4o-transcribe", "language": "en"}
        settings = {"format": {"type": "audio/pcm", "rate": 24000}, "transcription": transcription}
        audio = {"input": {**settings, "turn_detection": None}}
        connection.session.update(session={"type": "transcription", "audio": audio})
        for place in range(0, len(pcm), PIECE):
            connection.input_audio_buffer.append(audio=base64.b64encode(pcm[place : place + PIECE]).decode())
            if place <= len(pcm) // 2 < place + PIECE:
                print("half", flush=True)
        connection.input_audio_buffer.commit()
        for event in connection:
            got.append({"class": type(event).__name__, **event.model_dump(mode="json")})
            if event.type in (COMPLETED, "error"):
                break
    return got


async def detected(host: str, pcm: bytes) -> list[str]:
    """A session of openai-agents: it detects turns, and ends with a commit and a clear."""
    client = AsyncOpenAI(api_key="any", base_url=f"http://{host}/v1")  # this line is all that changes
    model = OpenAISTTModel("gpt-4o-transcribe", client)
    speaking = StreamedAudioInput()
    session = await model.create_session(speaking, STTModelSettings(language="en"), False, False)

    async def speak() -> None:
        for place in range(0, len(pcm), PIECE):
            await speaking.add_audio(np.frombuffer(pcm[place : place + PIECE], np.int16))
            await asyncio.sleep(0.02)
            if place <= len(pcm) // 2 < place + PIECE:
                print("half", flush=True)
        await speaking.add_audio(None)

    task = asyncio.create_task(speak())
    turns = [turn async for turn in session.transcribe_turns()]
    await task
    return turns


def main(host: str, recording: Path) -> None:
    """Use the service at this host and port."""
    pcm = recording.read_bytes()
    print(json.dumps({"openai": committed(host, pcm), "agents": asyncio.run(detected(host, pcm))}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
