"""A program with speechmatics-rt, as its users write one: a file, live audio, two channels, and what is refused.

The only change is the address of the service, which the SDK takes from SPEECHMATICS_RT_URL. It prints the messages that
the SDK has given to its handlers, as JSON.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from speechmatics.rt import (  # type: ignore[import-not-found,unused-ignore]
    AsyncClient,
    AsyncMultiChannelClient,
    AudioEncoding,
    AudioFormat,
    ConversationConfig,
    ServerMessageType,
    TranscriptionConfig,
    TranscriptResult,
)

PIECE = 3200  # 100 ms
HEADER = 44  # bytes of a WAV file
RAW = AudioFormat(encoding=AudioEncoding.PCM_S16LE, sample_rate=16_000)


def listening(client: Any) -> tuple[list[dict[str, Any]], asyncio.Event, asyncio.Event]:
    """Return the list of the messages that come. The SDK must be able to read each transcript.

    The events are the first partial, and the end.
    """
    got: list[dict[str, Any]] = []
    heard, over = asyncio.Event(), asyncio.Event()

    def take(message: dict[str, Any]) -> None:
        got.append(message)
        if message["message"] in (ServerMessageType.ADD_TRANSCRIPT, ServerMessageType.ADD_PARTIAL_TRANSCRIPT):
            result = TranscriptResult.from_message(message)
            message["read"] = [result.metadata.transcript, [each.type for each in result.results], result.is_final]
            heard.set()
        if message["message"] == ServerMessageType.END_OF_TRANSCRIPT:
            over.set()

    for kind in ServerMessageType:
        client.on(kind, take)
    return got, heard, over


async def file(content: bytes) -> list[dict[str, Any]]:
    """Transcribe a file, with nothing said about it: the first example of the SDK."""
    async with AsyncClient(api_key="any") as client:
        got, _, _ = listening(client)
        await client.transcribe(io.BytesIO(content), timeout=60)
    return got


async def live(pcm: bytes, *, tells: bool = False, **options: Any) -> list[dict[str, Any]]:
    """Speak, end the last utterance, and stop. `tells`: say when half of the audio was sent."""
    async with AsyncClient(api_key="any") as client:
        got, heard, _ = listening(client)
        config = TranscriptionConfig(enable_partials=True, **options)
        await client.start_session(transcription_config=config, audio_format=RAW)
        for place in range(0, len(pcm), PIECE):
            await client.send_audio(pcm[place : place + PIECE])
            if tells and place <= len(pcm) // 2 < place + PIECE:
                await asyncio.wait_for(heard.wait(), 30)
                print("half", flush=True)
        await client.force_end_of_utterance()
        await client.stop_session()
    return got


async def channels(pcm: bytes) -> list[dict[str, Any]]:
    """Speak on one of two channels."""
    async with AsyncMultiChannelClient(api_key="any") as client:
        got, _, over = listening(client)
        sources = {"agent": io.BytesIO(bytes(len(pcm))), "caller": io.BytesIO(pcm)}  # the SDK wants them in order
        await client.transcribe(sources, audio_format=RAW, timeout=60)
        await asyncio.wait_for(over.wait(), 30)
    return got


async def refused(**options: Any) -> str:
    """Return why a session does not begin."""
    try:
        async with AsyncClient(api_key="any") as client:
            await client.start_session(transcription_config=TranscriptionConfig(**options), audio_format=RAW)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def main(host: str, recording: bytes) -> None:
    """Use the service at this host and port."""
    # This line is all that changes.
    os.environ["SPEECHMATICS_RT_URL"] = f"ws://{host}/v2"
    pcm = recording[HEADER:]
    told = {
        "live": await live(pcm, tells=True),
        "early": await live(pcm, max_delay=0.7, conversation_config=ConversationConfig(0.6)),
        "file": await file(recording),
        "channels": await channels(pcm),
        "refused": [await refused(language="xx"), await refused(diarization="faces")],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]).read_bytes()))
