"""Attacks by websocket frames that are invalid, too large, too many, in too many pieces, or never read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from streamer.testing.exact_speech import say
from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, judged, refused, start, text, unread
from workshop.attack.raw_connection import BINARY, CLOSE, CONTINUATION, PING, TEXT, fragments, frame, wild_frame

FAMILY: Final = "frames"
PING_OF_MOST: Final = frame(PING, bytes(125))
ENOUGH: Final = 30_000_000
CUT_LIMIT_S: Final = 40.0


async def unread_pings(target: Target, rng: random.Random) -> Strike:
    """Send endless pings, before or after `start`, and read no pong. The service must stop reading."""
    connection = await target.websocket()
    try:
        if rng.random() < 0.5:
            await connection.send(start())
        keepalive = text({"type": "keepalive"}) if rng.random() < 0.5 else b""
        sent = await connection.stuff(PING_OF_MOST * 500 + keepalive, ENOUGH)
        if rng.random() < 0.2 and not await connection.cut_within(CUT_LIMIT_S, PING_OF_MOST):
            raise PromiseBroken(f"a client that reads nothing was not cut off within {CUT_LIMIT_S:g} s")
    finally:
        connection.reset()
    if sent >= ENOUGH:
        raise PromiseBroken("the service read endless pings from a client that reads nothing")
    strike = Strike()
    strike.add("read no further", sent // len(PING_OF_MOST))
    return strike


async def read_pings(target: Target, rng: random.Random) -> Strike:
    """Send thousands of pings. Each must get its pong."""
    number = rng.choice((1000, 5000, 20_000))
    connection = await target.websocket()
    try:
        sending = asyncio.create_task(connection.send(frame(PING, rng.randbytes(rng.randrange(126))) * number))
        pongs = await connection.pongs(number)
        await asyncio.gather(sending, return_exceptions=True)
    finally:
        connection.abort()
    # A connection without a session is closed after some seconds, which may be before the last pong.
    strike = Strike()
    strike.add("pongs" if pongs == number else "closed before", number)
    return strike


async def wild(target: Target, rng: random.Random) -> Strike:
    """Send random frames with everything that can be wrong with a frame, with or without `start` before them."""
    strike = Strike()
    for _ in range(10):
        connection = await target.websocket()
        number = rng.randrange(1, 60)
        sent = b"".join(wild_frame(rng) for _ in range(number))
        if rng.random() < 0.7:
            sent = start() + sent
        ended = await connection.until_closed(sent + frame(CLOSE, b"\x03\xe8"))
        strike.add(judged(ended, sent), number)
    return strike


async def many_fragments(target: Target, rng: random.Random) -> Strike:
    """Send a message in thousands of fragments, some empty, with pings between. It must arrive as one message."""
    number = rng.choice((500, 5000, 20_000))
    words = "a word in pieces"
    audio = say(words).tobytes()
    pieces = fragments(audio, [rng.choice((0, 0, 1, 2)) for _ in range(number)], between=frame(PING) * rng.randrange(2))
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    ended = await connection.until_closed(pieces + text({"type": "stop"}))
    if ended.code == 1000 and ended.text != words:
        raise PromiseBroken(f"{words!r} in {number} fragments was recognised as {ended.text!r}")
    strike = Strike()
    strike.add(judged(ended, b"fragments"), number)
    return strike


async def endless_fragments(target: Target, rng: random.Random) -> Strike:
    """Send a message that never ends. The service must close when it is too large, or when the session is idle."""
    connection = await target.websocket()
    sent = start() + frame(BINARY, b"", fin=False)
    sent += frame(CONTINUATION, bytes(rng.choice((0, 1, 4000))), fin=False) * rng.choice((1000, 20_000))
    ended = await connection.until_closed(sent)
    strike = Strike()
    strike.add(judged(ended, b"endless fragments"), sent.count(b"\x00\x80"))
    return strike


async def not_utf8(target: Target, rng: random.Random) -> Strike:
    """Send text that is not UTF-8, whole or cut inside a character. It must be closed with 1007."""
    strike = Strike()
    bad = (
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b'{"type":"\xc0\xaf"}',
        b"\xe2\x82",
    )
    for _ in range(10):
        chosen = rng.choice(bad)
        connection = await target.websocket()
        frames = fragments(chosen, [1] * rng.randrange(3), TEXT) if rng.random() < 0.5 else frame(TEXT, chosen)
        ended = await connection.until_closed((start() if rng.random() < 0.5 else b"") + frames)
        if ended.code not in (None, 1007, 1013) and ended.error != "no_start":
            raise PromiseBroken(f"the text {chosen!r} was closed with {ended.code}")
        strike.add(judged(ended, chosen))
    return strike


async def too_large(target: Target, rng: random.Random) -> Strike:
    """Send messages with a real or claimed length above the limit. They must be closed with 1009 at once."""
    strike = Strike()
    for _ in range(4):
        claimed = rng.choice(((1 << 20) + 1, 1 << 31, 1 << 40, (1 << 63) - 1))
        real = bytes(min(claimed, rng.choice((0, 1000, 2_000_000))))
        connection = await target.websocket()
        ended = await connection.until_closed(start() + frame(rng.choice((TEXT, BINARY)), real, length=claimed))
        if ended.code not in (None, 1009, 1013):
            raise PromiseBroken(f"a message of {claimed} bytes was closed with {ended.code}")
        strike.add(judged(ended, b"too large"))
    return strike


async def unread_results(target: Target, rng: random.Random) -> Strike:
    """Send endless audio, and read no result. The service must stop reading."""
    connection, ready = await target.session(step_ms=160, partial_words=True)
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    audio = frame(BINARY, say("some words that nobody reads").tobytes())
    return await unread(connection, audio, ENOUGH, "audio")


async def nonsense_after_stop(target: Target, rng: random.Random) -> Strike:
    """Send nonsense after `stop`. The client must still get its finals."""
    words = "these are owed to me"
    connection, ready = await target.session()
    if ready["type"] != "ready":
        connection.abort()
        return refused(ready)
    nonsense = rng.choice(
        (
            frame(TEXT, b"\xff\xfe"),
            frame(BINARY, length=1 << 40),
            frame(BINARY, b"", fin=False) * 2,
            frame(7, b"?"),
            text('{"type":"' * 3000) * 300,
            text("[" * 980 + "]" * 980) * 300,
            b"".join(wild_frame(rng) for _ in range(50)).replace(frame(CLOSE)[:1], frame(PING)[:1]),
        )
    )
    ended = await connection.until_closed(frame(BINARY, say(words).tobytes()) + text({"type": "stop"}) + nonsense)
    if ended.text != words and ended.code is not None:
        raise PromiseBroken(f"with {nonsense[:60]!r} after `stop` the finals were {ended.text!r}, not {words!r}")
    strike = Strike()
    strike.add(judged(ended, nonsense), 300)
    return strike


ATTACKS: Sequence[Attack] = (
    Attack("pings that are not read", FAMILY, unread_pings, 2),
    Attack("pings that are read", FAMILY, read_pings, 2),
    Attack("wild frames", FAMILY, wild, 4),
    Attack("many fragments", FAMILY, many_fragments, 2),
    Attack("endless fragments", FAMILY, endless_fragments, 2),
    Attack("text that is not UTF-8", FAMILY, not_utf8, 2),
    Attack("messages that are too large", FAMILY, too_large, 2),
    Attack("results that are not read", FAMILY, unread_results),
    Attack("nonsense after stop", FAMILY, nonsense_after_stop, 2),
)
