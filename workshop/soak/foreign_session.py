"""What sessions in foreign formats have in common: the plan, files, trying again, the pace, and the record."""

from __future__ import annotations

import asyncio
import io
import random
import re
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from copy import copy
from typing import Any, Final
from urllib.parse import urlsplit

import soundfile  # type: ignore[import-untyped]
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from streamer.audio.decoder import SAMPLE_RATE
from workshop.soak.scripted_client import PATIENCE_S, PAUSE_S, SessionRecord
from workshop.soak.session_plan import (
    LONGEST_S,
    MOST_VOICES,
    VOICES,
    Action,
    Audio,
    SessionPlan,
    draw_sent,
    draw_speech,
    encoded,
)

# Temporary refusals: the service is full, or its recogniser is starting.
PASSING: Final = (429, 503)
TRY_LATER: Final = (1013, 4013)  # the second one is Speechmatics'
DONE: Final = 1000
_NO_LETTER: Final = re.compile(r"[^a-z ]")


class TriedAgain(Exception):
    """The session was refused for the moment. The message is a word for the reason."""


class Vanished(Exception):
    """The client has gone, as its plan says."""


class ForeignSession(ABC):
    """Carries out one plan. A session in a foreign format cannot be resumed, so it has one connection."""

    def __init__(self, plan: SessionPlan, url: str, began: float) -> None:
        """`began`: the beginning of the run, as time.monotonic()."""
        self.record = SessionRecord(plan)
        self.plan = plan
        self.netloc = urlsplit(url).netloc
        self.heard: list[str] = []  # the words of finals so far
        self._began = began
        self._rng = random.Random(f"{plan.seed} {plan.number} client")

    @property
    def ways(self) -> dict[str, Any]:
        """The options of the format."""
        return dict(self.plan.options["ways"])

    @abstractmethod
    async def converse(self) -> str:
        """Open a connection, do what the plan says, and return how it ended. Raises TriedAgain or Vanished."""

    async def run(self) -> SessionRecord:
        """Carry out the plan, and return the record."""
        record = self.record
        record.began = self._now()
        try:
            record.ended = await asyncio.wait_for(self._insist(), PATIENCE_S)
        except Vanished:
            record.actions["vanish"] += 1
            record.ended = "vanished"
        except asyncio.TimeoutError:
            record.ended = "stuck"
        except (OSError, EOFError, ConnectionClosed, InvalidHandshake) as error:
            record.ended = "lost"
            record.connections.append((self._now(), f"lost: {error!r}"))
        record.over = self._now()
        return record

    async def pieces(self) -> AsyncIterator[tuple[int, int] | None]:
        """Yield the audio to send now, as its first and last byte, and None for a flush. Raises Vanished."""
        since, plan = time.monotonic(), self.plan
        for item in plan.items:
            if isinstance(item, Action):
                raise Vanished
            if not isinstance(item, Audio):
                yield None
                continue
            if plan.pace is not None:
                await asyncio.sleep(since + item.end / plan.bytes_per_ms / 1000 / plan.pace - time.monotonic())
            self.record.sent = max(self.record.sent, item.end)
            yield item.begin, item.end

    def final(self, words: list[dict[str, Any]]) -> None:
        """Note words that will not change: `word`, and if the format has them `start_ms` and `end_ms`."""
        plain_words = [{**word, "word": plain(str(word["word"]))} for word in words]
        self.heard += [word["word"] for word in plain_words]
        self.record.events.append((self._now(), {"type": "final", "n": len(self.record.events), "words": plain_words}))

    def final_text(self, text: str) -> None:
        """Note text that will not change, without times."""
        self.final([{"word": word} for word in text.split()])

    def partial(self, text: str) -> None:
        """Check text that may change: it must be the beginning of the words that are not final yet."""
        rest = " ".join(word.text for word in self.plan.speeches[0].words[len(self.heard) :])
        if not rest.startswith(plain(text)):
            self.record.wrong.append(f"a partial has words that were not said there: {text!r}")

    async def _insist(self) -> str:
        while True:
            try:
                # Each connection begins with nothing of those that were refused: a shallow copy has the same record.
                return await copy(self).converse()
            except TriedAgain as refusal:
                self.record.refusals[str(refusal)] += 1
            except InvalidStatus as refusal:
                if refusal.response.status_code not in PASSING:
                    return f"status {refusal.response.status_code}"
                self.record.refusals[f"status {refusal.response.status_code}"] += 1
            if self.heard:
                self.record.wrong.append("the session was refused after it had results")
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    def _now(self) -> float:
        return time.monotonic() - self._began


def plain(text: str) -> str:
    """Return words without capitals and marks."""
    return _NO_LETTER.sub("", text.lower())


def closed(code: int | None, reason: str) -> str:
    """Return how a websocket with this close ended. Raises TriedAgain if there was no place for it."""
    if code == DONE:
        return "done"
    if "recogniser failed" in reason:
        return "failed"
    if code in TRY_LATER:
        raise TriedAgain("full")
    return f"close {code} {reason}"


# Makes the plan of a session in a foreign format: its speech, and the options of the format.

NATIVE: Final = "native"
# The formats of sessions, and their relative frequencies.
FORMATS: Final = {
    NATIVE: 120,  # three of five sessions
    "upload": 8,
    "openai_file": 8,
    "deepgram": 10,
    "deepgram_file": 4,
    "openai_realtime": 10,
    "sherpa_onnx": 4,
    "vosk": 5,
    "whisperlive": 4,
    "whisperlivekit": 4,
    "deepgram_flux": 5,
    "assemblyai": 5,
    "riva": 5,
    "google": 5,
    "elevenlabs": 4,
    "azure": 4,
    "speechmatics": 5,
    "speechmatics_agent": 3,
    "twilio": 4,
    "soniox": 4,
}
# Their live audio may also come in a container. That of the others is always samples.
_CONTAINED: Final = ("deepgram", "riva", "speechmatics", "soniox", "upload", "openai_file", "deepgram_file")
UPLOADS: Final = ("upload", "openai_file", "deepgram_file")
_VANISH: Final = 0.12
_MEAN_WORDS: Final = 11
_CHOICES: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {
    "upload": ({"format": "json"}, {"stream": "true"}, {"format": "jsonl"}),
    "openai_file": (
        {"response_format": "json"},
        {"response_format": "text"},
        {"response_format": "verbose_json", "timestamp_granularities[]": "word"},
        {"stream": "true"},
    ),
    "deepgram": (
        {},
        {"interim_results": "true"},
        {"interim_results": "true", "punctuate": "true", "vad_events": "true", "utterance_end_ms": "1000"},
        {"endpointing": "false"},
    ),
    "deepgram_file": ({}, {"utterances": "true"}, {"smart_format": "true"}),
    "openai_realtime": (
        {"turn_detection": None},
        {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}},
        {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}},
    ),
    "sherpa_onnx": ({}, {"written": "true"}),
    "vosk": ({}, {"words": True, "partial_words": True}, {"max_alternatives": 2}),
    "whisperlive": ({}, {"audio_format": "int16"}, {"send_last_n_segments": 1}),
    "whisperlivekit": ({"mode": "full"}, {"mode": "diff"}),
    "deepgram_flux": ({}, {"eager_eot_threshold": "0.4"}, {"eot_threshold": "0.8", "eot_timeout_ms": "4000"}),
    "assemblyai": ({}, {"format_turns": "true", "max_turn_silence": "600"}, {"include_partial_turns": "false"}),
    "riva": ({}, {"interim_results": True}),
    "google": ({}, {"interim_results": True}, {"interim_results": True, "enable_voice_activity_events": True}),
    "elevenlabs": ({}, {"include_timestamps": "true"}),
    "azure": ({}, {"wordLevelTimestamps": "true"}, {"segmentationSilenceTimeoutMs": "500"}),
    "speechmatics": (
        {},
        {"enable_partials": True, "max_delay": 1.0},
        {"enable_partials": True, "conversation_config": {"end_of_utterance_silence_trigger": 0.6}},
    ),
    "soniox": ({}, {"enable_endpoint_detection": True}),
    "speechmatics_agent": ({}, {"emit_sentences": True}, {"enable_partials": False}),
    "twilio": ({}, {"streamer_step_ms": "160"}),
}


def draw_format(seed: int, number: int) -> str:
    """Draw the format of the session with this number."""
    [name] = random.Random(f"{seed} {number} format").choices(list(FORMATS), list(FORMATS.values()))
    return name


def draw_foreign_plan(seed: int, number: int, format: str) -> SessionPlan:
    """Draw the plan of the session with this number in this format. Its kind is the format."""
    rng = random.Random(f"{seed} {number} {format}")
    options: dict[str, Any] = {"ways": rng.choice(_CHOICES[format])}
    if format in _CONTAINED:
        # Files come as WAV or FLAC. Live audio comes as samples, or in the container of a WAV file.
        options["container"] = rng.choice(("WAV", "FLAC")) if format in UPLOADS else rng.choice(("", "", "WAV"))
    words = min(1 + int(rng.expovariate(1 / _MEAN_WORDS)), 60)
    speeches = (draw_speech(number * MOST_VOICES % VOICES, words, rng),)
    audio = encoded(speeches, {})
    audio_s = len(speeches[0].audio) / SAMPLE_RATE
    pace = rng.choice([None, None, *(pace for pace in (8.0, 4.0, 2.0, 1.0) if audio_s / pace <= LONGEST_S)])
    plan = SessionPlan(seed, number, format, options, speeches, audio, (), frozenset(), pace)
    items, end = list(draw_sent(plan, rng)), "done"
    if rng.random() < _VANISH:
        items = [*items[: rng.randint(0, len(items) - 1)], Action("vanish")]
        end = "vanished"
    return SessionPlan(seed, number, format, options, speeches, audio, tuple(items), frozenset({end}), pace)


# Recordings as files, and requests over HTTP that send them piece by piece.

BOUNDARY = "soak"
_ANSWER_LIMIT_S = 120.0
_UNKNOWN = 0xFFFFFFFF


def file_of(plan: SessionPlan) -> bytes:
    """Return the speech of a plan as a file."""
    file = io.BytesIO()
    soundfile.write(file, plan.speeches[0].audio, SAMPLE_RATE, format=plan.options["container"])
    return file.getvalue()


def endless_header() -> bytes:
    """Return the header of a WAV file of unknown length."""
    wave = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE, 2 * SAMPLE_RATE, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", _UNKNOWN, b"WAVE") + wave + struct.pack("<4sI", b"data", _UNKNOWN)


def form_around(fields: dict[str, str]) -> tuple[bytes, bytes]:
    """Return the parts of a form with these fields that come before and after the file."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="talk"\r\n\r\n'
    return ("".join(parts) + file).encode(), f"\r\n--{BOUNDARY}--\r\n".encode()


async def post(netloc: str, path: str, kind: str, body: AsyncIterator[bytes]) -> tuple[int, bytes]:
    """Send a body in chunks, and return the status and the content. An exception of `body` cuts the connection."""
    host, _, port = netloc.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answering = asyncio.create_task(reader.read(-1))
    try:
        head = f"POST {path} HTTP/1.1\r\nHost: {netloc}\r\nConnection: close\r\nContent-Type: {kind}\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        try:
            async for piece in body:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except ConnectionError:
            pass  # an answer may come before all of it is sent
        answer = await asyncio.wait_for(answering, _ANSWER_LIMIT_S)
    finally:
        answering.cancel()
        writer.transport.abort()
    return _read(answer)


def _read(answer: bytes) -> tuple[int, bytes]:
    head, _, content = answer.partition(b"\r\n\r\n")
    if not head:
        raise ConnectionResetError("there was no answer")
    if b"transfer-encoding: chunked" in head.lower():
        content = _joined(content)
    return int(head.split(b" ", 2)[1]), content


def _joined(chunks: bytes) -> bytes:
    content = b""
    while True:
        size, _, rest = chunks.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return content
        content, chunks = content + rest[:length], rest[length + 2 :]
