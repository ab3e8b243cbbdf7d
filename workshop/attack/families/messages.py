"""Attacks by valid frames with bad content: random options, nested JSON, costly hotwords, floods, odd audio."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from typing import Any, Final

from streamer.testing.exact_speech import say, silence
from streamer.wire.options import Start
from workshop.attack.attack import ODD, Attack, PromiseBroken, Strike, Target, judged, nested_json, refused, start, text
from workshop.attack.raw_connection import BINARY, frame

FAMILY: Final = "messages"
OPTIONS: Final = tuple(field for field in Start.__dataclass_fields__)
STOP: Final = text({"type": "stop"})


async def nested(target: Target, rng: random.Random) -> Strike:
    """Send lists and objects nested as deep as the parser can read, and deeper. Each must get an error and a close."""
    strike = Strike()
    for _ in range(10):
        depth, value = nested_json(rng)
        sent = rng.choice((f'{{"type":"start","{rng.choice((*OPTIONS, "x"))}":{value}}}', value, f'{{"type":{value}}}'))
        connection = await target.websocket()
        ended = await connection.until_closed(text(sent))
        # On a busy machine the text may come after the limit for `start`.
        if ended.code not in (None, 1013) and ended.error not in ("bad_json", "bad_message", "no_start"):
            raise PromiseBroken(f"JSON with {depth} levels was answered with {ended.error!r}, close code {ended.code}")
        strike.add(judged(ended, sent[:60].encode()))
    return strike


async def options(target: Target, rng: random.Random) -> Strike:
    """Start sessions with random values for random options. A refusal must say in a sentence what is wrong."""
    strike = Strike()
    for _ in range(10):
        chosen = {rng.choice((*OPTIONS, "colour")): _value(rng) for _ in range(rng.choice((1, 1, 2, 5)))}
        connection = await target.websocket()
        ended = await connection.until_closed(start(**chosen) + STOP)
        errors = [event for event in ended.events if event["type"] == "error"]
        if any(len(str(error["message"]).split()) < 5 for error in errors):
            raise PromiseBroken(f"{json.dumps(chosen)[:200]} got an error without a sentence: {errors}")
        strike.add(judged(ended, json.dumps(chosen).encode()))
    return strike


async def hotwords(target: Target, rng: random.Random) -> Strike:
    """Start sessions with as many hotwords of unknown words as are allowed."""
    strike = Strike()
    for _ in range(3):
        connection = await target.websocket()
        ended = await connection.until_closed(start(hotwords=[_phrase(rng) for _ in range(200)]) + STOP)
        strike.add(judged(ended, b"hotwords"), 200)
    return strike


async def wrong_order(target: Target, rng: random.Random) -> Strike:
    """Send valid messages at the wrong time."""
    strike = Strike()
    valid = (start(), start(), STOP, text({"type": "flush"}), text({"type": "keepalive"}), frame(BINARY, bytes(641)))
    for _ in range(10):
        sent = [rng.choice(valid) for _ in range(rng.randrange(1, 12))]
        connection = await target.websocket()
        strike.add(judged(await connection.until_closed(b"".join([*sent, STOP])), b"wrong order"), len(sent))
    return strike


async def not_json(target: Target, rng: random.Random) -> Strike:
    """Send odd texts: numbers with thousands of digits, keys that occur twice, characters that do not exist."""
    strike = Strike()
    texts = (
        "1" * 5000,
        "-" * 60_000,
        '{"type":"start",' * 1000,
        '{"type":"start","type":"stop"}',
        '{"type":"start","model":"\\ud800\\udfff\\ud800"}',
        '"' + "\\u0000" * 1000 + '"',
        "\ufeff{}",
        "NaN",
        " " * 60_000,
        "{" + ",".join(f'"{number}":0' for number in range(8000)) + "}",
        "".join(rng.choice(string.printable) for _ in range(rng.randrange(300))),
    )
    for _ in range(10):
        chosen = rng.choice(texts)
        connection = await target.websocket()
        strike.add(judged(await connection.until_closed(text(chosen) + STOP), chosen[:100].encode()))
    return strike


async def flood(target: Target, rng: random.Random) -> Strike:
    """Send thousands of small messages in a session. The words between them must be recognised."""
    words = "heard in a flood"
    connection, ready = await target.session(partials=False)
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    audio, number = say(words).tobytes(), rng.choice((1000, 5000, 20_000))
    small = rng.choice((text({"type": "keepalive"}), frame(BINARY), text({"type": "keepalive"}) + frame(BINARY)))
    half = number // 2
    sent = small * half + frame(BINARY, audio[:9001]) + small * half + frame(BINARY, audio[9001:]) + STOP
    ended = await connection.until_closed(sent)
    if ended.code == 1000 and ended.text != words:
        raise PromiseBroken(f"{words!r} between {number} small messages was recognised as {ended.text!r}")
    strike = Strike()
    strike.add(judged(ended, b"flood"), number)
    return strike


async def flushes(target: Target, rng: random.Random) -> Strike:
    """Flush without pauses. Each flush must be answered, or a live session closed as too fast."""
    number = rng.choice((20, 300))
    connection, ready = await target.session(live=rng.random() < 0.3)
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    ended = await connection.until_closed((frame(BINARY, bytes(64)) + text({"type": "flush"})) * number + STOP)
    answered = sum(event["type"] == "flushed" for event in ended.events)
    if ended.code == 1000 and answered != number:
        raise PromiseBroken(f"only {answered} of {number} flushes were answered")
    strike = Strike()
    strike.add(judged(ended, b"flushes"), number)
    return strike


async def left_behind(target: Target, rng: random.Random) -> Strike:
    """Send hundreds of flushes, read no answer, and reset the connection."""
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    number = rng.choice((500, 5000))
    flush = text({"type": "flush"})
    try:
        await connection.stuff(flush * 100, len(flush) * number)
    finally:
        connection.reset()
    strike = Strike()
    strike.add("left", number)
    return strike


async def odd_audio(target: Target, rng: random.Random) -> Strike:
    """Send audio at odd rates, with many channels, cut inside samples, or with values that are not numbers."""
    chosen = {
        "encoding": rng.choice(("pcm_s16le", "pcm_f32le", "mulaw", "alaw")),
        "sample_rate": rng.choice((8000, 8001, 11_025, 44_100, 191_999, 192_000)),
        "channels": rng.randrange(1, 9),
        "step_ms": 160,
        "alternatives": 10,
    }
    connection, ready = await target.session(**chosen)
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    pieces = [rng.randbytes(rng.choice((0, 1, 3, 5000, 100_000))) for _ in range(10)] + [silence(500).tobytes()]
    ended = await connection.until_closed(b"".join(frame(BINARY, piece) for piece in pieces) + STOP)
    strike = Strike()
    strike.add(judged(ended, json.dumps(chosen).encode()), len(pieces))
    return strike


def _value(rng: random.Random) -> Any:
    if rng.random() < 0.6:
        return rng.choice(ODD)
    usual = [field.default for field in Start.__dataclass_fields__.values() if isinstance(field.default, (str, int))]
    return rng.choice([*usual, [_phrase(rng)], {"text": _phrase(rng), "weight": rng.choice(ODD)}, {"silence": False}])


def _phrase(rng: random.Random) -> str:
    words = ("".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randrange(3, 10))) for _ in range(6))
    return " ".join(words)[:60].strip()


ATTACKS: Sequence[Attack] = (
    Attack("nested JSON", FAMILY, nested, 2),
    Attack("options out of a grammar", FAMILY, options, 3),
    Attack("hostile hotwords", FAMILY, hotwords, 2),
    Attack("messages in the wrong order", FAMILY, wrong_order, 2),
    Attack("texts that are no messages", FAMILY, not_json, 2),
    Attack("floods of small messages", FAMILY, flood, 2),
    Attack("floods of flushes", FAMILY, flushes),
    Attack("flushes that are left behind", FAMILY, left_behind),
    Attack("odd audio", FAMILY, odd_audio, 2),
)
