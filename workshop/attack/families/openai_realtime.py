"""Attacks in OpenAI's realtime format: wild events and settings, bad audio, floods, and clients that vanish."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from typing import Any, Final

from streamer.testing.exact_speech import say
from streamer.wire.dialects.openai_realtime import FLAT_SECRETS, PATH, SECRETS
from streamer.wire.dialects.short_key_requests import GRANT_PATH
from workshop.attack import attack
from workshop.attack.attack import (
    LONG,
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
from workshop.attack.raw_connection import BINARY, TEXT, Ended, fragments, frame, wild_frame
from workshop.attack.recordings import posted

FAMILY: Final = "openai realtime"
LIVE: Final = f"{PATH}?intent=transcription"
BYE: Final = frame(8, b"\x03\xe8")
_APPEND: Final = "input_audio_buffer.append"
_CLEAR: Final = text({"type": "input_audio_buffer.clear"})
_CLEARED: Final = ("input_audio_buffer.cleared",)
_UPDATED: Final = ("error", "session.updated", "transcription_session.updated")
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"
_TYPES: Final = ("session.update", "transcription_session.update", "response.create", "input_audio_buffer", "error")
_SETTINGS: Final = (
    "type",
    "audio",
    "input",
    "format",
    "rate",
    "transcription",
    "model",
    "language",
    "languages",
    "prompt",
    "keywords",
    "delay",
    "turn_detection",
    "threshold",
    "prefix_padding_ms",
    "silence_duration_ms",
    "eagerness",
    "noise_reduction",
    "include",
    "input_audio_format",
    "input_audio_transcription",
    "input_audio_noise_reduction",
)
_VALUES: Final[tuple[Any, ...]] = (
    "audio/pcm",
    "audio/pcmu",
    "audio/pcma",
    "pcm16",
    "g711_ulaw",
    "server_vad",
    "semantic_vad",
    "low",
    "en",
    "de",
    8000,
    24_000,
    192_000,
    10**12,
    0.5,
    300,
    -300,
    [],
    None,
)


async def wild_events(target: Target, rng: random.Random) -> Strike:
    """Send hundreds of wild texts and binary messages. Each must be answered once, and the session goes on."""
    sent = [
        frame(BINARY, rng.randbytes(rng.randrange(50)))
        if rng.random() < 0.1
        else text(wild_json(rng, _TYPES, ("event_id", "session", "audio", "type")))
        for _ in range(rng.choice((50, 300)))
    ]
    return await _each_answered(target, sent, _UPDATED)


async def wild_settings(target: Target, rng: random.Random) -> Strike:
    """Update any setting to any value, in both shapes. Each update must be answered."""
    return await _each_answered(target, [text(_update(rng)) for _ in range(rng.choice((50, 300)))], _UPDATED)


async def changing_settings(target: Target, rng: random.Random) -> Strike:
    """Change settings among audio, commits and clears. Each item must get its transcript, and each clear its answer."""
    sent: list[bytes] = []
    for _ in range(30):
        how = rng.random()
        if how < 0.3:
            sent.append(text(_update(rng)))
        elif how < 0.75:
            sent.append(_append(rng.choice((say("word").tobytes(), rng.randbytes(rng.choice((0, 1, 999, 9600)))))))
        elif how < 0.9:
            sent.append(text({"type": "input_audio_buffer.commit", "event_id": rng.choice(ODD)}))
        else:
            sent.append(_CLEAR)
    sent.append(_CLEAR)

    def complete(ended: Ended) -> bool:
        texts = ended.number_of(f"{_TRANSCRIPTION}.completed", f"{_TRANSCRIPTION}.failed")
        cleared = ended.number_of("input_audio_buffer.cleared")
        return cleared >= sent.count(_CLEAR) and texts == ended.number_of("input_audio_buffer.committed")

    connection = await target.websocket(path=LIVE)
    return _strike(await connection.until_closed(b"".join(sent), complete), len(sent))


async def bad_audio(target: Target, rng: random.Random) -> Strike:
    """Send audio that is not base64, or of the wrong type. Each event must get an error."""
    bad = (*(value for value in ODD if value not in ("", LONG)), "a", "\u00e9", "A" * 4001)
    appends = [{"type": _APPEND, "audio": rng.choice(bad)} for _ in range(rng.choice((50, 300)))]
    return await _each_answered(target, list(map(text, appends)), ("error",))


async def enormous_appends(target: Target, rng: random.Random) -> Strike:
    """Send an event with as much audio as is allowed, or a little more. It must get an error or a close."""
    size = (20 << 20) + rng.choice((1024, 1 << 20, 1 << 22))
    audio = frame(TEXT, f'{{"type":"{_APPEND}","audio":"'.encode() + b"A" * size + b'"}')
    return await _each_answered(target, [audio], ("error",))


async def floods(target: Target, rng: random.Random) -> Strike:
    """Send hundreds of commits or clears. Each must be answered."""
    kind, answers = rng.choice((("commit", ("error", "input_audio_buffer.committed")), ("clear", _CLEARED)))
    settings = {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}}
    before = [text(settings)] if rng.random() < 0.5 else []
    before += [_append(say("flood").tobytes())] * rng.randrange(2)
    # With turn detection each is a flush, of which the service reads 10 in a second.
    flood = [text({"type": f"input_audio_buffer.{kind}"})] * rng.choice((20, 200))
    return await _each_answered(target, flood, answers, before)


async def wrong_kinds(target: Target, rng: random.Random) -> Strike:
    """Send events as binary messages, wrong frames, and events cut into pieces that never end."""
    strike = Strike()
    clear = json.dumps({"type": "input_audio_buffer.clear"}).encode()
    for sent in (
        frame(BINARY, clear) * 100,
        frame(TEXT, rng.randbytes(rng.choice((1, 640, 60_000)))),
        frame(TEXT, clear[: rng.randrange(len(clear))], fin=False),
        fragments(clear, [rng.choice((0, 1)) for _ in range(500)], TEXT),
        frame(TEXT, clear * 4000),
        frame(TEXT, length=rng.choice((21 << 20, 1 << 40, (1 << 63) - 1))),
        b"".join(wild_frame(rng) for _ in range(rng.randrange(1, 60))),
    ):
        connection = await target.websocket(path=LIVE)
        # A frame may claim to be longer than what follows, and the service would wait for the rest of it for long.
        strike.add(judged(await connection.until_closed(sent + BYE, last=True), sent), 1 + len(sent) // 1000)
    return strike


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point, with audio and commits under way."""

    async def one(_: int) -> str:
        content = target.request(LIVE) + text(_update(rng)) + _append(say("hello").tobytes())
        content += text({"type": "input_audio_buffer.commit"}) * 5
        return await attack.leave(target, rng, content)

    return await at_once(8, one)


async def resting(target: Target, rng: random.Random) -> Strike:
    """Open as many connections as the key may have, without audio and with long settings."""

    async def one(_: int) -> str:
        update = {"session": {"audio": {"input": {"transcription": {"prompt": "a" * 60_000}}}}}
        connection = await target.websocket(path=LIVE)
        try:
            await connection.send(text({"type": "session.update", **update}) * 5)
            await connection.over(rng.random() * 5)
        finally:
            connection.abort()
        return "rested"

    return await at_once(20, one)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send endless updates, mistakes or audio, and read nothing. The service must stop reading."""
    long = {"session": {"audio": {"input": {"transcription": {"prompt": "a" * 30_000}}}}}
    content = rng.choice(
        (text({"type": "session.update", **long}), text("{}") * 500, _append(say("nobody reads").tobytes()))
    )
    connection = await target.websocket(path=LIVE)
    return await attack.unread(connection, content, 60_000_000, "events")


async def short_keys(target: Target, rng: random.Random) -> Strike:
    """Ask for far more keys for a short time than one caller may have, for wild times and sessions."""

    async def one(_: int) -> str:
        wild = wild_json(rng, ("session", "expires_after", "ttl_seconds"), ("seconds", "audio", "input"))
        session = {"session": _update(rng)["session"], "expires_after": {"seconds": rng.choice(ODD)}}
        body = rng.choice((wild, json.dumps(session), "{}", "[" * 16_000, "a" * 20_000))
        path = rng.choice((SECRETS, *FLAT_SECRETS, GRANT_PATH))
        return await posted(target, path, body.encode("utf-8", "surrogatepass"), rng, "Content-Type: application/json")

    return await at_once(100, one)


async def guessed_keys(target: Target, rng: random.Random) -> Strike:
    """Send guessed keys in every place where a key may be, also at the paths that make keys. All must be refused."""

    async def one(_: int) -> str:
        guess = rng.choice((target.hostile_key[:-1], "", "a" * 5000, "\x7f", target.hostile_key.upper()))
        field = rng.choice(
            (f"Authorization: Bearer {guess}", f"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.{guess}")
        )
        path = rng.choice((LIVE, LIVE, SECRETS, *FLAT_SECRETS, GRANT_PATH))
        request = target.request(path, "", field)
        if path != LIVE:
            request = request.replace(b"GET", b"POST", 1).replace(b"Upgrade: websocket\r\n", b"Content-Length: 0\r\n")
        connection = await target.connect()
        try:
            await connection.send(request)
            status = (await connection.head())[0]
        finally:
            connection.abort()
        if status not in (400, 401, 403, 404, 431):
            raise PromiseBroken(f"{path} with {field[:100]!r} was answered with {status}")
        return f"HTTP {status}"

    return await at_once(10, one)


def _update(rng: random.Random) -> dict[str, Any]:
    session: Any = _settings(rng, 4)
    if rng.random() < 0.6:
        session = {"audio": {"input": _settings(rng, 3)}}
    return {
        "type": rng.choice(_TYPES[:2]),
        "session": session if rng.random() < 0.9 else wild_value(rng),
        "event_id": rng.choice(ODD[:17]) if rng.random() < 0.3 else "mine",
    }


def _settings(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(_VALUES) if rng.random() < 0.6 else rng.choice((*ODD[:13], *ODD[14:]))
    return {rng.choice(_SETTINGS): _settings(rng, depth - 1) for _ in range(rng.randrange(1, 5))}


def _append(audio: bytes) -> bytes:
    return text({"type": _APPEND, "audio": base64.b64encode(audio).decode()})


async def _each_answered(
    target: Target, sent: Sequence[bytes], answers: Sequence[str], before: Sequence[bytes] = ()
) -> Strike:
    """Send these, and wait for an answer to each. `before` is sent first, and gets other answers."""
    connection = await target.websocket(path=LIVE)
    enough = len(sent)
    ended = await connection.until_closed(b"".join([*before, *sent]), lambda ended: ended.number_of(*answers) >= enough)
    if (more := ended.number_of(*answers)) > enough:
        raise PromiseBroken(f"{enough} events got {more} answers: {sent[0][:100]!r}")
    return _strike(ended, enough)


def _strike(ended: Ended, number: int) -> Strike:
    strike = Strike()
    strike.add(judged(ended, b"events"), number)
    return strike


ATTACKS: Sequence[Attack] = (
    Attack("wild events", FAMILY, wild_events, 4),
    Attack("wild settings", FAMILY, wild_settings, 4),
    Attack("changing settings", FAMILY, changing_settings, 3),
    Attack("bad audio in base64", FAMILY, bad_audio, 2),
    Attack("enormous appends", FAMILY, enormous_appends, every_s=15.0),
    Attack("floods of commits", FAMILY, floods, 2),
    Attack("events of the wrong kind", FAMILY, wrong_kinds, 2),
    Attack("realtime clients that go away", FAMILY, gone, 2),
    Attack("connections that rest", FAMILY, resting),
    Attack("events that are not read by a realtime client", FAMILY, unread),
    Attack("keys for a short time", FAMILY, short_keys),
    Attack("guessed keys of OpenAI", FAMILY, guessed_keys),
)
