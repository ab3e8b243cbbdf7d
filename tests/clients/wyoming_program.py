"""Speaks with the package `wyoming` as Home Assistant does: asks what there is, then one connection for each command.

The program prints what it was told as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import wave
from pathlib import Path
from typing import Any

from wyoming.asr import (  # type: ignore[import-not-found,unused-ignore]
    Transcribe,
    Transcript,
    TranscriptChunk,
    TranscriptStart,
    TranscriptStop,
)
from wyoming.audio import wav_to_chunks  # type: ignore[import-not-found,unused-ignore]
from wyoming.client import AsyncClient  # type: ignore[import-not-found,unused-ignore]
from wyoming.error import Error  # type: ignore[import-not-found,unused-ignore]
from wyoming.info import Describe, Info  # type: ignore[import-not-found,unused-ignore]
from wyoming.ping import Ping, Pong  # type: ignore[import-not-found,unused-ignore]


async def describe(uri: str) -> dict[str, Any]:
    """Ask what the service can do, and whether it is there."""
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Ping(text="there?").event())
        pong = Pong.from_event(await client.read_event())
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
    [program] = info.asr
    models = {model.name: model.languages for model in program.models if model.installed}
    return {"pong": pong.text, "models": models, "streams": program.supports_transcript_streaming}


async def command(uri: str, recording: Path, language: str) -> dict[str, Any]:
    """Speak a command, and read events up to the last one."""
    chunks: list[str] = []
    kinds: list[str] = []
    told: dict[str, Any] = {"chunks": chunks, "kinds": kinds, "transcript": None, "error": None}
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Transcribe(language=language).event())
        with wave.open(str(recording), "rb") as file:
            events = list(wav_to_chunks(file, 1024, start_event=True, stop_event=True))
        for number, each in enumerate(events):
            if number == len(events) // 2:
                print("half", flush=True)
            await client.write_event(each.event())
            await asyncio.sleep(0.005)
        while (event := await client.read_event()) is not None:
            kinds.append(event.type)
            if TranscriptChunk.is_type(event.type):
                chunks.append(TranscriptChunk.from_event(event).text)
            elif Transcript.is_type(event.type):
                told["transcript"] = Transcript.from_event(event).text
            elif Error.is_type(event.type):
                error = Error.from_event(event)
                told["error"] = [error.code, error.text]
            elif TranscriptStop.is_type(event.type):
                break
            else:
                assert TranscriptStart.is_type(event.type)
    return told


async def main(uri: str, recording: Path, language: str) -> None:
    """Use the service at this address."""
    info = await describe(uri)
    try:
        told = await command(uri, recording, language)
    except ConnectionError:  # the service closes the connection after an error
        told = {"transcript": None}
    print(json.dumps({**info, **told}))


if __name__ == "__main__":
    # The address is all that changes.
    asyncio.run(main(f"tcp://127.0.0.1:{sys.argv[3]}", Path(sys.argv[2]), sys.argv[4]))
