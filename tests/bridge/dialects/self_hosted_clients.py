"""Clients of formats that begin with audio, made of nothing but a websocket: one function for each format."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from streamer.testing.exact_speech import Audio
from streamer.wire.dialects import sherpa_onnx
from streamer.wire.dialects.formats import FORMATS
from tests.wire.dialects import azure_messages

PATIENCE_S = 60.0
PIECE = 3200  # samples
# What the address of a format must say.
QUERIES: Final = {
    "deepgram-flux": "encoding=linear16&sample_rate=16000",
    "assemblyai": "sample_rate=16000",
    "elevenlabs": "commit_strategy=vad",
}

Middle = Callable[[], Awaitable[object]]
"""What happens when half of the audio was sent."""


def address(url: str, format: str, query: str = "") -> str:
    """Return the address of a format at a service."""
    needed = QUERIES.get(format, "")
    return f"ws://{urlsplit(url).netloc}{FORMATS[format].path}?{'&'.join(filter(None, (needed, query)))}"


def floats(audio: Audio) -> bytes:
    """Return samples as fractions from -1 to 1."""
    return (audio.astype("<f4") / 32_768).astype("<f4").tobytes()


def int16(audio: Audio) -> bytes:
    """Return samples as they are."""
    return audio.astype("<i2").tobytes()


async def receive(websocket: ClientConnection) -> str:
    return str(await asyncio.wait_for(websocket.recv(), PATIENCE_S))


async def rest(websocket: ClientConnection) -> str:
    """Receive everything until the service closes, and return it."""
    texts = list[str]()
    try:
        while True:
            texts.append(await receive(websocket))
    except ConnectionClosed:
        return "\n".join(texts)


async def send_pieces(
    websocket: ClientConnection, audio: Audio, form: Callable[[Audio], bytes | str], middle: Middle | None
) -> None:
    """Send all audio."""
    for place in range(0, len(audio), PIECE):
        await websocket.send(form(audio[place : place + PIECE]))
        if middle and place <= len(audio) // 2 < place + PIECE:
            await middle()


async def sherpa(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of finals."""

    async def read() -> list[str]:
        finals = []
        while (text := await receive(websocket)) != sherpa_onnx.ENDED:
            result: dict[str, Any] = json.loads(text)
            finals += [result["text"]] if result["is_final"] else []
        return finals

    reading = asyncio.create_task(read())
    await send_pieces(websocket, audio, floats, middle)
    await websocket.send(sherpa_onnx.END)
    return await reading


async def vosk(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and wait for the answer to each message. Return the texts of finals."""
    answers = []
    for place in range(0, len(audio), PIECE):
        await websocket.send(int16(audio[place : place + PIECE]))
        if middle and place <= len(audio) // 2 < place + PIECE:
            await middle()
        answers.append(json.loads(await receive(websocket)))
    await websocket.send('{"eof" : 1}')
    answers.append(json.loads(await receive(websocket)))
    await websocket.wait_closed()
    assert websocket.close_code == 1000
    return [answer["text"] for answer in answers if "text" in answer]


async def whisperlive(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of completed segments. Each must come once, in its order."""
    ready = json.loads(await receive(websocket))
    assert (ready["message"], ready["backend"], ready["uid"]) == ("SERVER_READY", "faster_whisper", "ab-12")

    async def read() -> list[str]:
        completed: dict[str, str] = {}
        for line in (await rest(websocket)).splitlines():
            segments: list[dict[str, Any]] = json.loads(line)["segments"]
            assert all(segment["completed"] for segment in segments[:-1])
            completed |= {segment["start"]: segment["text"].strip() for segment in segments if segment["completed"]}
        return list(completed.values())

    reading = asyncio.create_task(read())
    await send_pieces(websocket, audio, floats, middle)
    await websocket.send(b"END_OF_AUDIO")
    return await reading


async def whisperlivekit(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of all lines."""
    assert json.loads(await receive(websocket)) == {"type": "config", "useAudioWorklet": True, "mode": "full"}
    reading = asyncio.create_task(rest(websocket))
    await send_pieces(websocket, audio, int16, middle)
    await websocket.send(b"")
    *states, ready = map(json.loads, (await reading).splitlines())
    assert ready == {"type": "ready_to_stop"}
    return [line["text"] for line in states[-1]["lines"]]


async def flux(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of turns. Their messages are numbered, and each has its turn."""
    assert json.loads(await receive(websocket))["type"] == "Connected"
    reading = asyncio.create_task(rest(websocket))
    await send_pieces(websocket, audio, int16, middle)
    await websocket.send('{"type":"CloseStream"}')
    messages = [json.loads(line) for line in (await reading).splitlines()]
    assert [message["sequence_id"] for message in messages] == list(range(1, len(messages) + 1))
    assert websocket.close_code == 1000
    ends = [message for message in messages if message["event"] == "EndOfTurn"]
    assert [end["turn_index"] for end in ends] == list(range(len(ends)))
    return [end["transcript"] for end in ends]


async def assemblyai(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of turns. The last message comes after all of them."""
    assert json.loads(await receive(websocket))["type"] == "Begin"
    reading = asyncio.create_task(rest(websocket))
    await send_pieces(websocket, audio, int16, middle)
    await websocket.send('{"type":"Terminate"}')
    *messages, last = [json.loads(line) for line in (await reading).splitlines()]
    assert (last["type"], websocket.close_code) == ("Termination", 1000)
    ends = [message for message in messages if message.get("end_of_turn")]
    assert [end["turn_order"] for end in ends] == list(range(len(ends)))
    return [end["transcript"] for end in ends]


def chunk(audio: bytes, *, commit: bool = False) -> str:
    """Return a message of ElevenLabs."""
    text = base64.b64encode(audio).decode()
    return json.dumps({"message_type": "input_audio_chunk", "audio_base_64": text, "commit": commit})


async def elevenlabs(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and commit at the end. Return the texts of commits, which pauses make too."""
    assert json.loads(await receive(websocket))["message_type"] == "session_started"

    async def read() -> list[str]:
        texts: list[str] = []
        while not texts or texts[-1]:  # all audio is heard, so the last commit has no text
            message = json.loads(await receive(websocket))
            texts += [message["text"]] if message["message_type"] == "committed_transcript" else []
        return texts

    reading = asyncio.create_task(read())
    await send_pieces(websocket, audio, lambda piece: chunk(int16(piece)), middle)
    await websocket.send(chunk(b"", commit=True))
    await websocket.send(chunk(b"", commit=True))
    return await reading


async def azure(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak in one turn, and return the texts of its phrases. Each message has the name of the turn."""

    async def read() -> list[str]:
        answers: list[azure_messages.Answer] = []
        while not answers or answers[-1].path != "turn.end":
            answers.append(azure_messages.read(await receive(websocket)))
        assert (answers[0].path, {answer.turn for answer in answers}) == ("turn.start", {azure_messages.TURN})
        return [str(answer.content.get("DisplayText", "")) for answer in answers]

    reading = asyncio.create_task(read())
    await send_pieces(websocket, audio, lambda piece: azure_messages.audio(int16(piece)), middle)
    await websocket.send(azure_messages.audio())
    return await reading


async def speechmatics(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of finals. Each message with audio is counted; the end comes after all results."""
    reading = asyncio.create_task(rest(websocket))
    await send_pieces(websocket, audio, int16, middle)
    await websocket.send('{"message":"EndOfStream","last_seq_no":0}')
    begun, *messages, last = [json.loads(line) for line in (await reading).splitlines()]
    assert [message["message"] for message in (begun, last)] == ["RecognitionStarted", "EndOfTranscript"]
    assert websocket.close_code == 1000
    counts = [message["seq_no"] for message in messages if message["message"] == "AudioAdded"]
    assert counts == list(range(1, -(-len(audio) // PIECE) + 1))
    finals = [message for message in messages if message["message"] in ("AddTranscript", "AddSegment")]
    return [final.get("segment", final["metadata"])["transcript"].strip() for final in finals]


async def soniox(websocket: ClientConnection, audio: Audio, middle: Middle | None) -> list[str]:
    """Speak, and return the texts of turns. Each has a mark at its end."""
    reading = asyncio.create_task(rest(websocket))
    await send_pieces(websocket, audio, int16, middle)
    await websocket.send("")
    *messages, last = [json.loads(line) for line in (await reading).splitlines()]
    assert (last["finished"], last["tokens"], websocket.close_code) == (True, [], 1000)
    finals = [token["text"] for message in messages for token in message["tokens"] if token["is_final"]]
    return [turn.strip() for turn in "".join(finals).split("<end>")]


def recognition(**config: object) -> str:
    """Return the first message of Speechmatics."""
    audio = {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    config = {"language": "en", "enable_partials": True, **config}
    return json.dumps({"message": "StartRecognition", "audio_format": audio, "transcription_config": config})


@dataclass(frozen=True)
class Client:
    """How a format speaks: what a client says first, the form of its audio, and a whole conversation after that."""

    converse: Callable[[ClientConnection, Audio, Middle | None], Awaitable[list[str]]]
    form: Callable[[Audio], bytes | str]
    hello: str | bytes = ""

    async def greet(self, websocket: ClientConnection) -> None:
        """Say what a client says first."""
        if self.hello:
            await websocket.send(self.hello)


CLIENTS: Final[Mapping[str, Client]] = {
    "deepgram-flux": Client(flux, int16),
    "assemblyai": Client(assemblyai, int16),
    "elevenlabs": Client(elevenlabs, lambda audio: chunk(int16(audio))),
    "azure": Client(
        azure, lambda audio: azure_messages.audio(int16(audio)), azure_messages.audio(azure_messages.header())
    ),
    "speechmatics": Client(speechmatics, int16, recognition()),
    "speechmatics-agent": Client(speechmatics, int16, recognition()),
    "soniox": Client(
        soniox,
        int16,
        '{"model":"stt-rt-v5","audio_format":"pcm_s16le","sample_rate":16000,"enable_endpoint_detection":true}',
    ),
    "sherpa-onnx": Client(sherpa, floats),
    "whisperlive": Client(whisperlive, floats, '{"uid": "ab-12", "language": null, "task": "transcribe"}'),
    "whisperlivekit": Client(whisperlivekit, int16),
    "vosk": Client(vosk, int16, '{"config" : {"sample_rate" : 16000}}'),
}


async def speak(url: str, format: str, audio: Audio, *, root: bool = False, middle: Middle | None = None) -> list[str]:
    """Open a connection, speak, and return the finals that are not empty. `root`: at the path `/`."""
    at = f"ws://{urlsplit(url).netloc}/?{QUERIES.get(format, '')}" if root else address(url, format)
    async with connect(at, compression=None, ping_timeout=None) as websocket:
        client = CLIENTS[format]
        await client.greet(websocket)
        return [text for text in await client.converse(websocket, audio, middle) if text]


def talk(*parts: Audio) -> Audio:
    """Join audio."""
    return np.concatenate(parts)
