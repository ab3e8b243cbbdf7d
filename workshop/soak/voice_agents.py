"""Sessions of the soak test in the formats of voice agents and of Azure: each word once, in order and at its time."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from websockets.asyncio.client import ClientConnection

from streamer.audio.decoder import SAMPLE_RATE
from streamer.wire.dialects import assemblyai, azure, deepgram_flux, elevenlabs
from workshop.soak.foreign_session import ForeignSession, endless_header
from workshop.soak.self_hosted_formats import SideBySideSession


def _chunk(audio: bytes, *, commit: bool = False) -> str:
    content = base64.b64encode(audio).decode()
    return json.dumps({"message_type": elevenlabs.CHUNK, "audio_base_64": content, "commit": commit})


class AgentSession(SideBySideSession):
    """A session in which a client forces the end of a turn where another one flushes."""

    force = ""
    turns = 0

    async def flush(self, websocket: Any) -> None:
        """End the turn."""
        await websocket.send(self.force)


class FluxSession(AgentSession):
    """A session in which messages and turns are numbered, and each turn ends once."""

    path = deepgram_flux.PATH
    ending = json.dumps({"type": "CloseStream"})
    force = json.dumps({"type": "ForceEndTurn"})
    _messages = 0
    _open = False

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return {"model": "flux-general-en", "encoding": "linear16", "sample_rate": SAMPLE_RATE, **self.ways}

    def take(self, text: str) -> bool:
        """Take a message."""
        message = json.loads(text)
        if message["sequence_id"] != self._messages:
            self.record.wrong.append(f"message {message['sequence_id']} came as number {self._messages}")
        self._messages += 1
        if message["type"] != "TurnInfo":
            if message["type"] not in ("Connected", "Error"):
                self.record.wrong.append(f"an unexpected message came: {message}")
            return False
        self._take_turn(message, message["event"])
        return False

    def _take_turn(self, message: Mapping[str, Any], event: str) -> None:
        if message["turn_index"] != self.turns or self._open is (event == "StartOfTurn"):
            self.record.wrong.append(f"{event} of turn {message['turn_index']} came in turn {self.turns}")
        self._open = event != "EndOfTurn"
        if self._open:
            self.partial(message["transcript"])
            return
        self.turns += 1
        self.final([_of_seconds(word) for word in message["words"]])


class AssemblyAISession(AgentSession):
    """A session in which turns are numbered, and the last message has the length of the audio."""

    path = assemblyai.PATH
    ending = json.dumps({"type": "Terminate"})
    force = json.dumps({"type": "ForceEndpoint"})

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return {"sample_rate": SAMPLE_RATE, **self.ways}

    def take(self, text: str) -> bool:
        """Take a message."""
        message = json.loads(text)
        if message["type"] == "Turn":
            self._take_turn(message)
        elif message["type"] == "Termination":
            audio_s = self.record.sent / self.plan.bytes_per_ms / 1000
            if abs(message["audio_duration_seconds"] - audio_s) > 1:
                self.record.wrong.append(f"{audio_s:.1f} s of audio were {message['audio_duration_seconds']} s")
        elif message["type"] not in ("Begin", "SpeechStarted", "Error"):
            self.record.wrong.append(f"an unexpected message came: {message}")
        return False

    def _take_turn(self, message: Mapping[str, Any]) -> None:
        if message["turn_order"] != self.turns:
            self.record.wrong.append(f"a message of turn {message['turn_order']} came in turn {self.turns}")
        if not message["end_of_turn"]:
            self.partial(message["transcript"])
        elif message["turn_is_formatted"] or not self.ways.get("format_turns"):
            self.turns += 1
            times = [
                {"word": each["text"], "start_ms": each["start"], "end_ms": each["end"]} for each in message["words"]
            ]
            self.final(times)


class ElevenLabsSession(AgentSession):
    """A session in which each commit of the client is answered, and text comes again with times."""

    path = elevenlabs.PATH
    force = _chunk(b"", commit=True)
    ending = force
    _asked = 1  # at the end
    _answers = 0

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return {"commit_strategy": "manual", **self.ways}

    def form(self, audio: bytes) -> str:
        """Return a message with samples."""
        return _chunk(audio)

    async def flush(self, websocket: Any) -> None:
        """Commit."""
        self._asked += 1
        await super().flush(websocket)

    def take(self, text: str) -> bool:
        """Take a message. The answer to the last commit is the last one."""
        message = json.loads(text)
        kind, timed = message["message_type"], bool(self.ways.get("include_timestamps"))
        if kind == "partial_transcript":
            self.partial(message["text"])
        elif kind == "committed_transcript_with_timestamps":
            words = [each for each in message["words"] if each["type"] == "word"]
            self.final([_of_seconds({**each, "word": each["text"]}) for each in words])
            self._answers += 1
        elif kind == "committed_transcript" and not timed:
            self.final_text(message["text"])
            self._answers += 1
        elif kind not in ("session_started", "committed_transcript"):
            self.record.connections.append((0.0, f"{kind}: {message}"))
        return self.said and self._answers >= self._asked


def azure_audio(turn: str, audio: bytes = b"") -> bytes:
    """Return a message of Azure's SDK with audio; without any, it ends the turn."""
    head = f"Path: audio\r\nX-RequestId: {turn}\r\n".encode()
    return len(head).to_bytes(2, "big") + head + audio


class AzureSession(SideBySideSession):
    """A session in which a client begins another turn where another one flushes."""

    path = azure.PATH
    _turn = ""  # the last one of the client
    _open = ""  # the one of which the service speaks
    _begins_ms: dict[str, float]

    def query(self) -> dict[str, Any]:
        """Return the options."""
        return {"language": "en-US", **self.ways}

    async def begin(self, websocket: ClientConnection) -> None:
        """Begin the first turn."""
        self._begins_ms = {}
        await self._begin(websocket)

    def form(self, audio: bytes) -> bytes:
        """Return a message with samples."""
        return azure_audio(self._turn, audio)

    async def flush(self, websocket: ClientConnection) -> None:
        """End the turn, and begin another one."""
        await websocket.send(self.ending)
        await self._begin(websocket)

    def take(self, text: str) -> bool:
        """Take a message. The end of the last turn is the last one."""
        head, _, body = text.partition("\r\n\r\n")
        fields = dict(row.split(":", 1) for row in head.split("\r\n"))
        turn, path, content = fields["X-RequestId"], fields["Path"], json.loads(body)
        if self._open != ("" if path == "turn.start" else turn) or turn not in self._begins_ms:
            self.record.wrong.append(f"{path} of turn {turn} came in turn {self._open}")
        self._open = "" if path == "turn.end" else turn
        if path == "speech.hypothesis":
            self.partial(content["Text"])
        elif path == "speech.phrase" and content["RecognitionStatus"] == "Success":
            self._take_phrase(content, self._begins_ms[turn])
        return self.said and path == "turn.end" and turn == self._turn

    def _take_phrase(self, phrase: Mapping[str, Any], begin_ms: float) -> None:
        if "NBest" not in phrase:
            self.final_text(phrase["DisplayText"])
            return
        words = []
        for word in phrase["NBest"][0]["DisplayWords"]:
            start_ms = begin_ms + word["Offset"] / 10_000
            end_ms = start_ms + word["Duration"] / 10_000
            words.append({"word": word["DisplayText"], "start_ms": round(start_ms), "end_ms": round(end_ms)})
        self.final(words)

    async def _begin(self, websocket: ClientConnection) -> None:
        self._turn = f"{len(self._begins_ms):032x}"
        self._begins_ms[self._turn] = self.record.sent / self.plan.bytes_per_ms
        self.ending = azure_audio(self._turn)
        await websocket.send(f"Path: speech.context\r\nX-RequestId: {self._turn}\r\n\r\n{{}}")
        await websocket.send(self.form(endless_header()))


def _of_seconds(word: Mapping[str, Any]) -> dict[str, Any]:
    return {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}


SESSIONS: Final[dict[str, type[ForeignSession]]] = {
    "elevenlabs": ElevenLabsSession,
    "azure": AzureSession,
    "deepgram_flux": FluxSession,
    "assemblyai": AssemblyAISession,
}
