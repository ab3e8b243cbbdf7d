"""Attacks in Deepgram's live format: wild options and messages, hostile containers, floods, and clients that vanish."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from streamer.testing.exact_speech import say
from streamer.wire.dialects.deepgram import MESSAGES, PATH
from streamer.wire.dialects.deepgram_options import CONTAINED, ENCODINGS, OPTIONS, REFUSED_ENCODINGS
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
from workshop.attack.raw_connection import BINARY, TEXT, Ended, fragments, frame, wild_frame

FAMILY: Final = "deepgram"
LINEAR: Final = f"{PATH}?encoding=linear16&sample_rate=16000"
CLOSE: Final = text({"type": "CloseStream"})
FINALIZE: Final = text({"type": "Finalize"})
# Before the upgrade. 503: the recogniser was killed.
STATUSES: Final = (101, 400, 401, 403, 429, 431, 503)
_NAMES: Final = tuple(option.name for option in OPTIONS)
_VALUES: Final = (
    "true",
    "false",
    "",
    "en",
    "de",
    "nova-3",
    "0",
    "1",
    "-1",
    "9" * 400,
    "1e308",
    "NaN",
    "inf",
    "16000",
    "25",
    "\0",
    *ENCODINGS,
    *CONTAINED,
    *REFUSED_ENCODINGS,
    "\u202e",
    "a:b:c",
    ":5",
    "word:1e9",
    "null",
    "[object Object]",
)
_FIELDS: Final = ("keyterms", "features", "channel", "type", "thresholds")
_WORDS: Final = "these words are mine"


async def wild_options(target: Target, rng: random.Random) -> Strike:
    """Open sessions with any value for any option, some hundreds of times. A refusal must have a sentence."""

    async def one(_: int) -> str:
        query = wild_query(rng)
        connection = await target.connect()
        try:
            await connection.send(target.request(f"{PATH}?{query}"[:30_000]))
            status, headers = await connection.head()
            if status not in STATUSES:
                raise PromiseBroken(f"the options {query[:200]} were answered with {status}")
            if status != 101:
                sentence = recordings.refusal(await connection.content(headers))
                if len(sentence.split()) < 5:
                    raise PromiseBroken(f"the options {query[:200]} were refused without a sentence: {sentence}")
                return f"HTTP {status}"
            return judged(await connection.until_closed(CLOSE), query.encode())
        finally:
            connection.abort()

    return await at_once(10, one)


async def wild_messages(target: Target, rng: random.Random) -> Strike:
    """Send hundreds of wild texts among speech. Each must be answered or ignored, and every word recognised."""
    wild = (wild_json(rng, MESSAGES[:2], _FIELDS) for _ in range(rng.choice((50, 300))))
    texts = [each for each in wild if _is_certain(each)]
    audio = say(_WORDS).tobytes()
    frames = [frame(BINARY, audio[place : place + 6400]) for place in range(0, len(audio), 6400)]
    for each in texts:
        frames.insert(rng.randrange(len(frames) + 1), text(each))
    connection = await target.websocket(path=LINEAR)
    ended = await connection.until_closed(b"".join([*frames, CLOSE]))
    strike = Strike()
    strike.add(judged(ended, b"wild messages"), len(texts))
    if ended.code == 1000:
        keepalives = sum(_type(each) == "KeepAlive" for each in texts)
        if (answers := ended.number_of("Error")) != len(texts) - keepalives:
            raise PromiseBroken(f"{len(texts)} wild texts with {keepalives} keepalives got {answers} errors")
        if (recognised := _finals(ended)) != _WORDS:
            raise PromiseBroken(f"among {len(texts)} wild texts, {_WORDS!r} was recognised as {recognised!r}")
    return strike


async def configurations(target: Target, rng: random.Random) -> Strike:
    """Change options to any value. Each change must get its answer."""
    number = rng.choice((20, 200))
    changes = [{"type": "Configure", rng.choice(_FIELDS[:3]): wild_value(rng, _FIELDS)} for _ in range(number)]
    changes = [change for change in changes if len(json.dumps(change)) < 60_000]
    connection = await target.websocket(path=f"{LINEAR}&keyterm=%ED%A0%80")
    ended = await connection.until_closed(b"".join([*map(text, changes), CLOSE]))
    answers = ended.number_of("ConfigureSuccess", "ConfigureFailure")
    if ended.code == 1000 and answers != len(changes):
        raise PromiseBroken(f"{len(changes)} changes of options got {answers} answers")
    strike = Strike()
    strike.add(judged(ended, b"configure"), number)
    return strike


async def wrong_kinds(target: Target, rng: random.Random) -> Strike:
    """Send audio as text, JSON as audio, frames of odd lengths, and messages cut into pieces that never end."""
    strike = Strike()
    keepalive = json.dumps({"type": "KeepAlive"}).encode()
    for sent in (
        frame(TEXT, rng.randbytes(rng.choice((1, 640, 60_000)))),
        frame(TEXT, say("hello").tobytes()[:60_000]),
        frame(BINARY, keepalive) * 100,
        frame(BINARY, rng.randbytes(1)) * rng.choice((1, 999)),
        frame(TEXT, keepalive[: rng.randrange(len(keepalive))], fin=False),
        fragments(keepalive, [rng.choice((0, 1)) for _ in range(500)], TEXT),
        frame(TEXT, b'{"type":"CloseStream"}' * 4000),
        frame(BINARY, length=rng.choice((1 << 21, 1 << 40, (1 << 63) - 1))),
        b"".join(wild_frame(rng) for _ in range(rng.randrange(1, 60))),
    ):
        connection = await target.websocket(path=LINEAR)
        strike.add(judged(await connection.until_closed(sent + CLOSE), sent), 1 + len(sent) // 1000)
    return strike


async def floods(target: Target, rng: random.Random) -> Strike:
    """Send a flood of small messages: keepalives, finalizes, or audio of a few bytes."""
    connection = await target.websocket(path=LINEAR)
    kind = rng.choice(
        (text({"type": "KeepAlive"}), FINALIZE, frame(BINARY, bytes(2)), frame(BINARY, bytes(64)) + FINALIZE)
    )
    number = rng.choice((20, 300) if FINALIZE in kind else (200, 5000))
    ended = await connection.until_closed(kind * number + CLOSE)
    answered = sum(bool(event.get("from_finalize")) for event in ended.events)
    if ended.code == 1000 and FINALIZE in kind and answered != number:
        raise PromiseBroken(f"{number} finalizes got {answered} answers")
    strike = Strike()
    strike.add(judged(ended, kind), number)
    return strike


async def containers(target: Target, rng: random.Random) -> Strike:
    """Send damaged recordings, random bytes and bombs without an encoding. They must be recognised or refused."""
    bodies = [recordings.wild_recording(rng) for _ in range(4)] + [rng.choice(recordings.bombs(rng))]

    async def one(number: int) -> str:
        body, size = bodies[number], rng.choice((100, 4000, 60_000))
        path = f"{PATH}?multichannel={rng.choice(('true', 'false'))}&encoding={rng.choice(('', 'opus', 'flac'))}"
        connection = await target.websocket(path=path)
        pieces = b"".join(frame(BINARY, body[place : place + size]) for place in range(0, len(body), size))
        ended = await connection.until_closed(pieces + FINALIZE + rng.choice((CLOSE, frame(BINARY))))
        recordings.check_decoders(target)
        return judged(ended, body)

    return await at_once(len(bodies), one)


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point, sometimes in the middle of a container."""
    wav = recordings.recording()

    async def one(_: int) -> str:
        container = rng.random() < 0.5
        request = target.request(PATH if container else LINEAR)
        content = request + frame(BINARY, wav if container else say("hello").tobytes()) + FINALIZE + CLOSE
        return await attack.leave(target, rng, content)

    return await at_once(8, one)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send endless audio or endless mistakes, and read nothing. The service must stop reading."""
    content = rng.choice((frame(BINARY, say("words that nobody reads").tobytes()), text("{}") * 500))
    connection = await target.websocket(path=f"{LINEAR}&interim_results=true&vad_events=true")
    return await attack.unread(connection, content, 30_000_000, "messages")


async def guessed_keys(target: Target, rng: random.Random) -> Strike:
    """Send guessed keys in every place where a key may be. They must be refused before the upgrade."""

    async def one(_: int) -> str:
        guess = rng.choice((target.hostile_key[:-1], "", "a" * 5000, "key,key", "\x7f", target.hostile_key.upper()))
        field = rng.choice(
            (
                f"Authorization: Token {guess}",
                f"Authorization: Bearer {guess}",
                f"Sec-WebSocket-Protocol: token, {guess}",
            )
        )
        connection = await target.connect()
        try:
            await connection.send(target.request(LINEAR, "", field))
            status = (await connection.head())[0]
        finally:
            connection.abort()
        if status not in (400, 401, 431):
            raise PromiseBroken(f"{field[:100]!r} was answered with {status}")
        return f"HTTP {status}"

    return await at_once(10, one)


def wild_query(rng: random.Random) -> str:
    """Make a query with any value for any option, some hundreds of times."""
    chosen = [(rng.choice((*_NAMES, "colour")), _option(rng)) for _ in range(rng.choice((1, 2, 5, 20, 500)))]
    if rng.random() < 0.5:
        chosen += [("encoding", "linear16"), ("sample_rate", "16000")]
    return "&".join(f"{name}={quote(value, errors='replace')}" for name, value in chosen)


def _option(rng: random.Random) -> str:
    return rng.choice(_VALUES) if rng.random() < 0.8 else str(rng.choice(ODD))[:2000]


def _finals(ended: Ended) -> str:
    results = [event for event in ended.events if event["type"] == "Results" and event["is_final"]]
    return " ".join(filter(None, (result["channel"]["alternatives"][0]["transcript"] for result in results)))


def _type(sent_text: str) -> object:
    try:
        message = json.loads(sent_text)
    except (ValueError, RecursionError):
        return None
    return message.get("type") if isinstance(message, dict) else None


def _is_certain(sent_text: str) -> bool:
    """Return whether it is certain that this text is answered, or that it is not.

    Results may answer it, or its depth may be at the limit.
    """
    return _type(sent_text) != "Finalize" and not ("KeepAlive" in sent_text and len(sent_text) > 1000)


ATTACKS: Sequence[Attack] = (
    Attack("wild options of Deepgram", FAMILY, wild_options, 3),
    Attack("wild messages of Deepgram", FAMILY, wild_messages, 4),
    Attack("changes of options", FAMILY, configurations, 2),
    Attack("messages of the wrong kind", FAMILY, wrong_kinds, 2),
    Attack("floods of Deepgram's messages", FAMILY, floods, 2),
    Attack("hostile containers", FAMILY, containers, 2),
    Attack("live clients that go away", FAMILY, gone, 2),
    Attack("live results that are not read", FAMILY, unread),
    Attack("guessed keys of Deepgram", FAMILY, guessed_keys),
)
