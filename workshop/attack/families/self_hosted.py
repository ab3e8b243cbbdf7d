"""Attacks in the formats whose sessions begin with audio, of servers that people run themselves and of voice agents."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from streamer.testing.exact_speech import say
from streamer.wire.dialects import (
    assemblyai,
    azure,
    deepgram_flux,
    elevenlabs,
    sherpa_onnx,
    soniox,
    speechmatics,
    speechmatics_agent,
    speechmatics_format,
    vosk,
    whisperlive,
    whisperlivekit,
)
from streamer.wire.dialects.audio_first import OPTIONS
from streamer.wire.dialects.speechmatics_config import CONFIG
from workshop.attack import attack, recordings
from workshop.attack.attack import (
    ODD,
    Attack,
    PromiseBroken,
    Strike,
    Target,
    at_once,
    judged,
    text,
    wild_json,
    wild_value,
)
from workshop.attack.raw_connection import BINARY, TEXT, Ended, frame, wild_frame
from workshop.soak.foreign_session import endless_header, plain
from workshop.soak.voice_agents import azure_audio

FAMILY: Final = "self-hosted"
# Before the upgrade. 503: the recogniser was killed.
STATUSES: Final = (101, 400, 401, 403, 429, 431, 503)
_WORDS: Final = "these words are mine"
_SPEECH: Final = say(_WORDS)
_UID: Final = "ab-12"
_TURN: Final = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Format:
    """What a client of one format sends, and how its finals are read."""

    path: str  # with what the address must say
    hello: bytes
    audio: bytes  # the speech, as frames
    end: bytes
    names: Sequence[str]  # in its texts
    texts: Callable[[Sequence[dict[str, Any]]], list[str]]


def _floats(samples: Any) -> bytes:
    return (samples.astype("<f4") / 32_768).astype("<f4").tobytes()


def _divided(audio: bytes, size: int = 6400) -> list[bytes]:
    return [audio[place : place + size] for place in range(0, len(audio), size)]


def _pieces(audio: bytes, size: int = 6400) -> bytes:
    return b"".join(frame(BINARY, piece) for piece in _divided(audio, size))


def _chunk(audio: bytes, *, commit: bool = False) -> bytes:
    content = base64.b64encode(audio).decode()
    return text({"message_type": elevenlabs.CHUNK, "audio_base_64": content, "commit": commit})


def _azure_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    bodies = [str(event["text"]).partition("\r\n\r\n") for event in events]
    phrases = [json.loads(body) for head, _, body in bodies if "Path:speech.phrase" in head]
    return [phrase["DisplayText"] for phrase in phrases if "DisplayText" in phrase]


def _recognition(config: object, kind: object = "raw") -> bytes:
    """Return the first message of Speechmatics."""
    audio = {"type": kind, "encoding": "pcm_s16le", "sample_rate": 16_000}
    return text({"message": speechmatics_format.START, "audio_format": audio, "transcription_config": config})


def _vosk_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    best = [event["alternatives"][0] if event.get("alternatives") else event for event in events]
    return [str(each["text"]) for each in best if "text" in each]


def _live_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    segments = [segment for event in events for segment in event.get("segments", ()) if segment["completed"]]
    return list({segment["start"]: segment["text"].strip() for segment in segments}.values())


def _turn_texts(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return the last end of each turn: some end twice."""
    return list(
        {event["turn_order"]: str(event["transcript"]) for event in events if event.get("end_of_turn")}.values()
    )


FORMATS: Final = (
    Format(
        sherpa_onnx.PATH,
        b"",
        _pieces(_floats(_SPEECH)),
        text(sherpa_onnx.END),
        ("type", "Done", "config"),
        lambda events: [event["text"] for event in events if event.get("is_final")],
    ),
    Format(
        vosk.PATH,
        text({"config": {"sample_rate": 16_000}}),
        _pieces(_SPEECH.tobytes()),
        text({"eof": 1}),
        (*vosk.CONFIG, "grammar", "spk"),
        _vosk_texts,
    ),
    Format(
        whisperlive.PATH,
        text({"uid": _UID}),
        _pieces(_floats(_SPEECH)),
        frame(BINARY, whisperlive.END),
        (*whisperlive.OPTIONS, "use_vad"),
        _live_texts,
    ),
    Format(
        whisperlivekit.PATH,
        b"",
        _pieces(_SPEECH.tobytes()),
        frame(BINARY),
        ("type", "mode"),
        lambda events: [line["text"] for line in [event for event in events if "lines" in event][-1]["lines"]],
    ),
    Format(
        f"{deepgram_flux.PATH}?encoding=linear16&sample_rate=16000",
        b"",
        _pieces(_SPEECH.tobytes()),
        text({"type": "CloseStream"}),
        ("thresholds", "keyterms", "eot_threshold", "eager_eot_threshold", "eot_timeout_ms", "language_hints"),
        lambda events: [event["transcript"] for event in events if event.get("event") == "EndOfTurn"],
    ),
    Format(
        f"{assemblyai.PATH}?sample_rate=16000",
        b"",
        _pieces(_SPEECH.tobytes()),
        text({"type": "Terminate"}),
        ("max_turn_silence", "format_turns", "keyterms_prompt", "language_codes", "mode", "filter_profanity"),
        _turn_texts,
    ),
    Format(
        elevenlabs.PATH,
        b"",
        b"".join(map(_chunk, _divided(_SPEECH.tobytes()))),
        _chunk(b"", commit=True),
        ("message_type", "audio_base_64", "commit", "sample_rate", "previous_text"),
        lambda events: [event["text"] for event in events if event.get("message_type") == "committed_transcript"],
    ),
    Format(
        azure.PATH,
        b"",
        b"".join(frame(BINARY, azure_audio(_TURN, part)) for part in (endless_header(), *_divided(_SPEECH.tobytes()))),
        frame(BINARY, azure_audio(_TURN)),
        ("phraseDetection", "phraseOutput", "format", "mode", "languageId", "speakerDiarization", "detailed", "dgi"),
        _azure_texts,
    ),
    Format(
        speechmatics.PATH,
        _recognition({}),
        _pieces(_SPEECH.tobytes()),
        text({"message": speechmatics_format.END, "last_seq_no": 1}),
        (*CONFIG, "message", "channel", "data"),
        lambda events: [each["metadata"]["transcript"] for each in events if each.get("message") == "AddTranscript"],
    ),
    Format(
        speechmatics_agent.AGENT_PATH,
        _recognition({}),
        _pieces(_SPEECH.tobytes()),
        text({"message": speechmatics_format.END, "last_seq_no": 1}),
        (*CONFIG, "turn_config", "vad_config", "emit_sentences"),
        lambda events: [each["segment"]["transcript"] for each in events if each.get("message") == "AddSegment"],
    ),
    Format(
        soniox.PATH,
        text({"audio_format": "pcm_s16le", "sample_rate": 16_000}),
        _pieces(_SPEECH.tobytes()),
        frame(TEXT),
        (*soniox.CONFIG, "type"),
        lambda events: [t["text"] for each in events for t in each.get("tokens", ()) if t["is_final"]],
    ),
)
_OWN_BEGINNINGS: Final = tuple(format for format in FORMATS if format.hello)
BYE: Final = frame(8, b"\x03\xe8")


async def wild_queries(target: Target, rng: random.Random) -> Strike:
    """Open websockets with any value for any option in the address. A refusal must have a sentence."""

    async def one(_: int) -> str:
        chosen = [
            (rng.choice((*OPTIONS, "mode", "token", "colour")), str(rng.choice((*ODD, "true", "en", "5"))))
            for _ in range(rng.choice((1, 2, 5, 20, 500)))
        ]
        query = "&".join(f"{name}={quote(value[:2000], errors='replace')}" for name, value in chosen)
        connection = await target.connect()
        try:
            await connection.send(target.request(_with(rng.choice(FORMATS).path, query)[:30_000]))
            status, headers = await connection.head()
            if status not in STATUSES:
                raise PromiseBroken(f"the options {query[:200]} were answered with {status}")
            if status != 101 and len((sentence := recordings.refusal(await connection.content(headers))).split()) < 5:
                raise PromiseBroken(f"the options {query[:200]} were refused with {sentence!r}")
        finally:
            connection.abort()
        return f"HTTP {status}"

    return await at_once(10, one)


async def wild_texts(target: Target, rng: random.Random) -> Strike:
    """Send wild texts among speech. If the session comes to its end, every word must have arrived, and no other."""
    format = rng.choice(FORMATS)
    sent = list(texts_without_end(rng, format))
    frames = [format.audio, *map(text, sent)]
    rng.shuffle(frames)
    connection = await target.websocket(path=format.path)
    ended = await connection.until_closed(b"".join([format.hello, *frames, format.end]), _is_over)
    strike = Strike()
    strike.add(judged(ended, b"wild texts"), len(sent))
    if ended.code == 1000 and (heard := _heard(format, ended)) != _WORDS:
        raise PromiseBroken(f"among {len(sent)} wild texts at {format.path}, {_WORDS!r} was recognised as {heard!r}")
    return strike


async def wild_beginnings(target: Target, rng: random.Random) -> Strike:
    """Send wild options as the first message, in which each name may have any value."""

    async def one(_: int) -> str:
        format = rng.choice(_OWN_BEGINNINGS)
        options = {rng.choice(format.names): wild_value(rng, format.names) for _ in range(rng.randrange(1, 6))}
        if format.path.startswith(speechmatics.PATH):
            sent = _recognition(options, rng.choice(("raw", "raw", "file", None, *ODD)))
        elif format.path == soniox.PATH:
            sent = text({"audio_format": rng.choice(("pcm_s16le", "auto")), "sample_rate": 16_000, **options})
        else:
            sent = text({"config": options} if format.path == vosk.PATH else {"uid": _UID, **options})
        connection = await target.websocket(path=format.path)
        ended = await connection.until_closed(b"".join([sent, format.audio, format.end]), _is_over)
        return judged(ended, sent)

    return await at_once(8, one)


async def answers(target: Target, rng: random.Random) -> Strike:
    """Send Vosk's messages without waiting for answers, and resets among them. Each must get exactly one."""
    kinds = [frame(BINARY, bytes(rng.choice((0, 2, 640, 16_000)))) for _ in range(rng.choice((50, 900)))]
    resets = rng.choice((0, 3, 20))
    kinds += [text({"reset": 1})] * resets
    rng.shuffle(kinds)
    connection = await target.websocket(path=vosk.PATH)
    ended = await connection.until_closed(b"".join([*kinds, text({"eof": 1})]))
    strike = Strike()
    strike.add(judged(ended, b"frames and resets"), len(kinds))
    if ended.code == 1000 and len(ended.events) != len(kinds) + 1:
        raise PromiseBroken(f"{len(kinds) + 1} messages of Vosk got {len(ended.events)} answers")
    return strike


async def wrong_kinds(target: Target, rng: random.Random) -> Strike:
    """Send audio as text, samples that are cut or are no numbers, frames of all kinds, and many ends."""
    strike = Strike()
    for sent in (
        frame(TEXT, rng.randbytes(rng.choice((1, 640, 60_000)))),
        frame(BINARY, rng.randbytes(1)) * rng.choice((1, 999)),
        frame(BINARY, np.array([np.nan, np.inf, -np.inf, 1e38, -1e-40] * 400, "<f4").tobytes()) * 5,
        frame(BINARY, length=rng.choice((1 << 21, 1 << 40, (1 << 63) - 1))),
        b"".join(wild_frame(rng) for _ in range(rng.randrange(1, 60))),
        b"".join(format.end for format in FORMATS) * rng.choice((1, 300)),
    ):
        format = rng.choice(FORMATS)
        connection = await target.websocket(path=format.path)
        ended = await connection.until_closed(format.hello + sent + format.end + BYE, last=True)
        strike.add(judged(ended, sent), 1 + len(sent) // 1000)
    return strike


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point."""

    async def one(_: int) -> str:
        format = rng.choice(FORMATS)
        content = target.request(format.path) + format.hello + format.audio + format.end
        return await attack.leave(target, rng, content)

    return await at_once(8, one)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send endless audio, and read nothing. The service must stop reading."""
    format = rng.choice(FORMATS)
    connection = await target.websocket(path=format.path)
    await connection.send(format.hello)
    return await attack.unread(connection, format.audio, 60_000_000, "audio")


async def guessed_keys(target: Target, rng: random.Random) -> Strike:
    """Send guessed keys in the address and in the header. They must be refused before the upgrade."""

    async def one(_: int) -> str:
        guess = rng.choice((target.hostile_key[:-1], "", "a" * 5000, target.hostile_key.upper()))
        place, field = rng.choice((("token", ()), ("key", ()), ("colour", (f"Authorization: Bearer {guess}",))))
        connection = await target.connect()
        try:
            path = _with(rng.choice(FORMATS).path, f"{place}={quote(guess)}")
            await connection.send(target.request(path, "", *field))
            status = (await connection.head())[0]
        finally:
            connection.abort()
        if status not in (400, 401, 431):
            raise PromiseBroken(f"a guessed key as {place} was answered with {status}")
        return f"HTTP {status}"

    return await at_once(10, one)


def _with(path: str, query: str) -> str:
    """Return a path with more options."""
    return f"{path}{'&' if '?' in path else '?'}{query}"


def texts_without_end(rng: random.Random, format: Format) -> Iterator[str]:
    """Yield wild texts, none of which ends a session."""
    for _ in range(rng.choice((5, 50, 200))):
        sent = _wild_text(rng, format)
        # The end of a format may come by chance (for Soniox an empty text), and so may what its clients say first.
        if sent and not any(word in sent for word in ("eof", "reset", "Done", "rate")):
            yield sent


def _wild_text(rng: random.Random, format: Format) -> str:
    if format.path == vosk.PATH and rng.random() < 0.5:
        return json.dumps({"config": wild_value(rng, ("words", "partial_words", "max_alternatives", "grammar"))})
    if format.path == azure.PATH and rng.random() < 0.5:
        context = json.dumps({rng.choice(format.names): wild_value(rng, format.names)})
        return f"Path: speech.context\r\nX-RequestId: {_TURN}\r\n\r\n{context}"
    return wild_json(rng, ("start", "stop", "flush", "Configure", "UpdateConfiguration"), format.names)


def _is_over(ended: Ended) -> bool:
    """Return whether the last message of a format has come in which the service does not close."""
    last = ended.events[-1]
    if last.get("text") == sherpa_onnx.ENDED or last.get("message_type") == "committed_transcript":
        return True
    return "\r\nPath:turn.end\r\n" in str(last.get("text", ""))


def _heard(format: Format, ended: Ended) -> str:
    words = " ".join(" ".join(filter(None, format.texts(ended.events))).split())
    return plain(words)


ATTACKS: Sequence[Attack] = (
    Attack("wild addresses", FAMILY, wild_queries, 3),
    Attack("wild texts among speech", FAMILY, wild_texts, 4),
    Attack("wild first messages", FAMILY, wild_beginnings, 3),
    Attack("answers of Vosk", FAMILY, answers, 2),
    Attack("audio of the wrong kind", FAMILY, wrong_kinds, 2),
    Attack("clients of self-hosted servers that go away", FAMILY, gone, 2),
    Attack("audio whose results are not read", FAMILY, unread),
    Attack("guessed keys in addresses", FAMILY, guessed_keys),
)
