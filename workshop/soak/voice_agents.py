"""Sessions of the soak test in the formats of voice agents and of Azure: each word once, in order and at its time."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from websockets.asyncio.client import ClientConnection

from streamer.audio.decoder import SAMPLE_RATE
from streamer.wire.dialects import (
    assemblyai,
    azure,
    deepgram_flux,
    elevenlabs,
    soniox,
    speechmatics,
    speechmatics_agent,
    speechmatics_format,
)
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
        await self._begin(websocket, 0.0)  # an attempt that was refused may have sent something, too

    def form(self, audio: bytes) -> bytes:
        """Return a message with samples."""
        return azure_audio(self._turn, audio)

    async def flush(self, websocket: ClientConnection) -> None:
        """End the turn, and begin another one."""
        await websocket.send(self.ending)
        await self._begin(websocket, self.record.sent / self.plan.bytes_per_ms)

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

    async def _begin(self, websocket: ClientConnection, begin_ms: float) -> None:
        self._turn = f"{len(self._begins_ms):032x}"
        self._begins_ms[self._turn] = begin_ms
        self.ending = azure_audio(self._turn)
        await websocket.send(f"Path: speech.context\r\nX-RequestId: {self._turn}\r\n\r\n{{}}")
        await websocket.send(self.form(endless_header()))


class SpeechmaticsSession(AgentSession):
    """A session in which each message with audio is counted, and each forced end is answered."""

    path = speechmatics.PATH
    ending = json.dumps({"message": speechmatics_format.END, "last_seq_no": 0})
    force = json.dumps({"message": speechmatics_format.FORCE})
    _added = _forced = _ends = 0
    _over = False

    async def begin(self, websocket: Any) -> None:
        """Say what comes: samples, or a WAV file."""
        raw = {"type": "raw", "encoding": "pcm_s16le", "sample_rate": SAMPLE_RATE}
        container = self.plan.options.get("container")
        config = {"language": "en", **self.ways}
        audio = {"type": "file"} if container else raw
        start = {"message": speechmatics_format.START, "audio_format": audio, "transcription_config": config}
        await websocket.send(json.dumps(start))
        if container:
            self._added -= 1  # the header is a message, too
            await websocket.send(endless_header())

    async def flush(self, websocket: Any) -> None:
        """End the utterance."""
        self._forced += 1
        await super().flush(websocket)

    def take(self, text: str) -> bool:
        """Take a message. Nothing may follow the end of the transcript."""
        message = json.loads(text)
        kind = message["message"]
        if self._over:
            self.record.wrong.append(f"{kind} came after the end")
        if kind == "AudioAdded":
            self._added += 1
            begun = self._added + bool(self.plan.options.get("container"))
            if message["seq_no"] != begun:
                self.record.wrong.append(f"audio was counted as {message['seq_no']}, not {begun}")
        elif kind == "Error":
            self.reason = message["reason"]
        elif kind == "EndOfTranscript":
            self._over = True
            self._check()
        elif not self._result(kind, message) and kind not in ("RecognitionStarted", "Info"):
            self.record.wrong.append(f"an unexpected message came: {message}")
        return False

    def _check(self) -> None:
        if self._ends < self._forced:
            self.record.wrong.append(f"{self._forced} forced ends got {self._ends} answers")

    def _result(self, kind: str, message: Mapping[str, Any]) -> bool:
        if kind == "AddTranscript":
            words = [each for each in message["results"] if each["type"] == "word"]
            times = [(each["start_time"], each["end_time"]) for each in words]
            self.final(
                [
                    _of_seconds({"word": each["alternatives"][0]["content"], "start": start, "end": end})
                    for each, (start, end) in zip(words, times, strict=True)
                ]
            )
        elif kind == "AddPartialTranscript":
            self.partial(message["metadata"]["transcript"].strip())
        self._ends += kind == "EndOfUtterance"
        return kind in ("AddTranscript", "AddPartialTranscript", "EndOfUtterance")


class SpeechmaticsAgentSession(SpeechmaticsSession):
    """A session with turns, each of which begins and ends once."""

    path = speechmatics_agent.AGENT_PATH
    _open = False

    def _check(self) -> None:
        if self._open:
            self.record.wrong.append("the last turn did not end")

    def _result(self, kind: str, message: Mapping[str, Any]) -> bool:
        if kind in ("StartOfTurn", "EndOfTurn"):
            if self._open is (kind == "StartOfTurn"):
                self.record.wrong.append(f"{kind} came twice")
            self._open = kind == "StartOfTurn"
        elif kind == "AddSegment":
            self.final_text(message["segment"]["transcript"])
        elif kind == "AddPartialSegment":
            self.partial(message["segment"]["transcript"])
        return kind.startswith(("Speech", "StartOf", "EndOfTurn")) or kind.endswith("Segment")


class SonioxSession(AgentSession):
    """A session in which final tokens come once, and each `finalize` is answered."""

    path = soniox.PATH
    ending = ""
    force = json.dumps({"type": "finalize"})
    _forced = _answers = 0

    async def begin(self, websocket: Any) -> None:
        """Say what comes: samples, or a WAV file."""
        container = self.plan.options.get("container")
        raw = {"audio_format": "pcm_s16le", "sample_rate": SAMPLE_RATE, "num_channels": 1}
        start = {"model": "stt-rt-v5", **({"audio_format": "auto"} if container else raw), **self.ways}
        await websocket.send(json.dumps(start))
        if container:
            await websocket.send(endless_header())

    async def flush(self, websocket: Any) -> None:
        """Ask for the final tokens."""
        self._forced += 1
        await super().flush(websocket)

    def take(self, text: str) -> bool:
        """Take a message."""
        message = json.loads(text)
        if "error_code" in message:
            self.reason = message["error_message"]
        tokens = message["tokens"]
        marks = [token["text"] for token in tokens if token["text"] in ("<end>", "<fin>")]
        self._answers += marks.count("<fin>")
        words = [token for token in tokens if token["is_final"] and token["text"] not in marks]
        self.final(
            [{"word": each["text"].strip(), **{name: each[name] for name in ("start_ms", "end_ms")}} for each in words]
        )
        self.partial("".join(token["text"] for token in tokens if not token["is_final"]).strip())
        if message.get("finished") and self._answers != self._forced:
            self.record.wrong.append(f"{self._forced} forced ends got {self._answers} answers")
        return False


def _of_seconds(word: Mapping[str, Any]) -> dict[str, Any]:
    return {"word": word["word"], "start_ms": round(1000 * word["start"]), "end_ms": round(1000 * word["end"])}


SESSIONS: Final[dict[str, type[ForeignSession]]] = {
    "elevenlabs": ElevenLabsSession,
    "azure": AzureSession,
    "speechmatics": SpeechmaticsSession,
    "speechmatics_agent": SpeechmaticsAgentSession,
    "soniox": SonioxSession,
    "deepgram_flux": FluxSession,
    "assemblyai": AssemblyAISession,
}
