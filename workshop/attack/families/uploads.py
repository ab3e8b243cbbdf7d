"""Attacks by uploaded recordings: damaged, lying and far too long ones, forms, requests within bodies, and floods."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from streamer.wire.native_upload import PATH
from workshop.attack import recordings
from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, at_once, mutated
from workshop.attack.recordings import BOUNDARY, FORM, form, head, posted, recording, wild_recording

FAMILY: Final = "uploads"
_HIDDEN: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


async def wild_recordings(target: Target, rng: random.Random) -> Strike:
    """Upload damaged recordings, and random bytes after the beginning of a format."""
    return await at_once(6, lambda _: posted(target, PATH, wild_recording(rng), rng))


async def bombs(target: Target, rng: random.Random) -> Strike:
    """Upload small files that are enormous once decoded, or claim to be."""
    bodies = recordings.bombs(rng)
    return await at_once(len(bodies), lambda number: posted(target, PATH, bodies[number], rng))


async def forms(target: Target, rng: random.Random) -> Strike:
    """Send forms with bytes changed, too many fields, endless heads, and boundaries within boundaries."""
    strike = Strike()
    wav = recording()
    whole = form(("format", b"json"), ("model", b"default"), ("file", wav), ("late", b"1" * rng.randrange(200)))
    beginning = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="'.encode()
    for body in (
        mutated(whole[:300], rng) + whole[300:],
        form(*[("a", b"b")] * rng.choice((300, 2000)), ("file", wav)),
        form(("a", bytes(200_000)), ("file", wav)),
        beginning + b"a" * rng.randrange(100_000),
        (f"--{BOUNDARY}\r\n" * 5000).encode(),
        (f"\r\n--{BOUNDARY}" * 5000).encode(),
        whole[: rng.randrange(len(whole))],
    ):
        strike.add(await posted(target, PATH, body, rng, FORM))
    return strike


async def gone(target: Target, rng: random.Random) -> Strike:
    """Go away at any point, with a reset or silently."""
    return await recordings.gone(target, (f"{PATH}?stream=true", PATH), rng)


async def hidden(target: Target, rng: random.Random) -> Strike:
    """Hide a request in the body of a recording that has two lengths. It must not be answered."""
    strike = Strike()
    for lengths in (
        b"Content-Length: 6\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 100",
        b"Content-Length: 0\r\nContent-Length: 36",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Content-Length: +5",
    ):
        connection = await target.connect()
        try:
            await connection.send(head(target, PATH, lengths.decode()) + b"0\r\n\r\n" + _HIDDEN)
            answer = await connection.rest()
        finally:
            connection.abort()
        if len(re.findall(rb"HTTP/1\.1 \d{3} ", answer)) > 1 or b"alive" in answer:
            raise PromiseBroken(f"a request within a recording with {lengths!r} was answered: {answer[:300]!r}")
        strike.add(f"HTTP {int(answer.split(b' ', 2)[1])}" if answer else "cut off")
    return strike


async def abandoned(target: Target, rng: random.Random) -> Strike:
    """Send whole recordings, and go away at once."""
    return await recordings.abandoned(target, PATH)


async def slow(target: Target, rng: random.Random) -> Strike:
    """Take all decoders with recordings that hardly go on. Another key must get one nevertheless."""
    return await recordings.slow(target, PATH)


async def flood(target: Target, rng: random.Random) -> Strike:
    """Upload far more recordings at once than the service accepts. It must not run more decoders than allowed."""
    return await recordings.flood(target, PATH, recording(), rng)


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send an endless recording, and read no event. The service must stop reading."""
    return await recordings.unread(target, f"{PATH}?stream=true&partial_words=true&encoding=pcm_s16le")


ATTACKS: Sequence[Attack] = (
    Attack("wild recordings", FAMILY, wild_recordings, 4),
    Attack("bombs", FAMILY, bombs),
    Attack("broken forms", FAMILY, forms, 2),
    Attack("clients that go away", FAMILY, gone, 2),
    Attack("requests within recordings", FAMILY, hidden, 2),
    Attack("a flood of recordings", FAMILY, flood, every_s=20.0),
    Attack("recordings that are abandoned", FAMILY, abandoned, every_s=20.0),
    Attack("recordings that hardly go on", FAMILY, slow, every_s=20.0),
    Attack("events that are not read", FAMILY, unread),
)
