"""Hostile recordings, and requests that upload them in any format and check the answer."""

from __future__ import annotations

import asyncio
import io
import json
import random
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Final

import numpy as np
import soundfile  # type: ignore[import-untyped]

from streamer.audio.decoder_process import MODULE
from streamer.base.limits import MOST_UPLOADS
from streamer.base.machine import command, processes
from streamer.testing.exact_speech import say
from workshop.attack.attack import PromiseBroken, Strike, Target, at_once, leave, mutated
from workshop.attack.raw_connection import CUT_OFF, RawConnection

# 500 is never right. 503: the service is full, or the recogniser was killed.
RIGHT: Final = (200, 400, 401, 404, 408, 413, 415, 422, 429, 431, 503)
WORD: Final = "hostile"
_SLOW_LIMIT_S: Final = 25.0  # until another key has a place that slow recordings took
BOUNDARY: Final = "frontier"
FORM: Final = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
NO_FORM: Final = "X: y"
# The beginnings of formats that libsndfile or ffmpeg read. Random bytes follow them.
_BEGINNINGS: Final = (
    b"RIFF\xff\xff\xff\xffWAVE",
    b"RF64\xff\xff\xff\xffWAVE",
    b"fLaC",
    b"OggS",
    b"ID3\x04\0\0\x7f\x7f\x7f\x7f",
    b"FORM\0\0\0\0AIFF",
    b".snd",
    b"caff",
    b"\x1aE\xdf\xa3",
    b"\0\0\0\x20ftypisom",
    b"FLV\x01",
    b"#!AMR\n",
    b"\xff\xfb\x90\x64",
    b"\xff\xf1\x50\x80",
    b"#EXTM3U\n/etc/passwd\n",
    b"ffconcat version 1.0\nfile /etc/passwd\n",
)


def recording(format: str = "WAV", audio: np.ndarray | None = None) -> bytes:  # type: ignore[type-arg]
    """Return a valid recording, by default of one word."""
    file = io.BytesIO()
    soundfile.write(file, say(WORD) if audio is None else audio, 16_000, format=format)
    return file.getvalue()


def wild_recording(rng: random.Random) -> bytes:
    """Return a recording with bytes changed, left out or doubled, or random bytes after the beginning of a format."""
    if rng.random() < 0.5:
        return mutated(recording(rng.choice(("WAV", "FLAC", "OGG", "AIFF", "CAF"))), rng)
    return rng.choice(_BEGINNINGS) + rng.randbytes(rng.randrange(60_000))


def bombs(rng: random.Random) -> list[bytes]:
    """Return small files that are enormous once decoded, or claim to be."""
    silence = recording("FLAC", np.zeros(16_000 * 120, np.int16))
    claims = bytearray(silence)
    claims[21:26] = rng.choice((b"\xff" * 5, b"\x01\0\0\0\0", bytes(5)))  # the number of samples is in these bytes
    rates = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 1, 65535, 1, 1, 2, 16, b"data", 1 << 30
    )
    wide = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 3, 8, 1 << 31, 1, 32, 32, b"data", 0)
    return [bytes(claims), rates + bytes(5000), wide + bytes(5000), silence]


def form(*fields: tuple[str, bytes]) -> bytes:
    """Return the body of a form with these fields."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in fields
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def head(target: Target, path: str, *fields: str, key: str = "") -> bytes:
    """Return the head of a request that uploads something, by default with the key of the attackers."""
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {key or target.hostile_key}", *fields]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")


async def posted(target: Target, path: str, body: bytes, rng: random.Random, kind: str = NO_FORM) -> str:
    """Upload this, with its length or in chunks, and return the status. Raises PromiseBroken if the status is wrong."""
    connection = await target.connect()
    try:
        if rng.random() < 0.5:
            sent = head(target, path, f"Content-Length: {len(body)}", kind) + body
        else:
            size = max(1, len(body) // rng.choice((1, 3, 50)))
            pieces = [body[start : start + size] for start in range(0, len(body), size)]
            chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
            sent = head(target, path, "Transfer-Encoding: chunked", kind) + chunks + b"0\r\n\r\n"
        return await _answered(connection, sent)
    except CUT_OFF:
        return "cut off"
    finally:
        connection.abort()


async def gone(
    target: Target, paths: Sequence[str], rng: random.Random, kind: str = NO_FORM, body: bytes = b""
) -> Strike:
    """Go away at any point of an upload, with a reset or silently. `body`: by default a recording."""
    body = body or recording("WAV", np.tile(say(WORD), 20))

    async def one(_: int) -> str:
        sent = head(target, rng.choice(paths), f"Content-Length: {len(body)}", kind) + body
        return await leave(target, rng, sent)

    return await at_once(8, one)


async def abandoned(target: Target, path: str) -> Strike:
    """Send whole recordings, and go away at once with a reset. The work for them must end."""
    body = _long_recording()

    async def one(_: int) -> str:
        connection = await target.connect()
        try:
            await connection.send(head(target, path, f"Content-Length: {len(body)}") + body)
        finally:
            connection.reset()
        return "went away"

    return await at_once(8, one)


@cache
def _long_recording() -> bytes:
    """Return some minutes of speech. To make them takes time, in which the bystanders could not send."""
    return recording("FLAC", np.tile(say(WORD), 300))


async def slow(target: Target, path: str) -> Strike:
    """Take all decoders with recordings that hardly go on. Another key must get one nevertheless."""
    body = recording("WAV", say(WORD))
    strike, held = Strike(), list[RawConnection]()
    try:
        for _ in range(MOST_UPLOADS):
            held.append(await target.connect())
            with suppress(*CUT_OFF):
                await held[-1].send(head(target, path, f"Content-Length: {len(body)}") + body[:1000])
        began = time.monotonic()
        while True:
            connection = await target.connect()
            try:
                sent = head(target, path, f"Content-Length: {len(body)}", key=target.other_key) + body
                answer = await _answered(connection, sent)
            except CUT_OFF:
                answer = "cut off"
            finally:
                connection.abort()
            strike.add(answer)
            now = time.monotonic()
            if answer == "HTTP 200" or target.was_disturbed(began, now):
                return strike
            if now - began > _SLOW_LIMIT_S:
                raise PromiseBroken(f"slow recordings of one key denied all places to another one: {answer}")
            await asyncio.sleep(1.0)
    finally:
        for each in held:
            each.abort()


async def unread(target: Target, path: str, kind: str = NO_FORM, before: bytes = b"") -> Strike:
    """Send an endless recording, and read no event. The service must stop reading."""
    most = 100_000_000
    connection = await target.connect()
    try:
        await connection.send(head(target, path, "Transfer-Encoding: chunked", kind))
        if before:
            await connection.send(f"{len(before):x}\r\n".encode() + before + b"\r\n")
        pcm = np.tile(say(WORD), 5).tobytes()
        sent = await connection.stuff(f"{len(pcm):x}\r\n".encode() + pcm + b"\r\n", most, quiet_s=2.0)
    finally:
        connection.reset()
    if sent >= most:
        raise PromiseBroken("the service read an endless recording from a client that does not read the events")
    strike = Strike()
    strike.add("read no further")
    return strike


async def flood(target: Target, path: str, body: bytes, rng: random.Random, kind: str = NO_FORM) -> Strike:
    """Upload far more recordings at once than the service accepts. It must not run more decoders than allowed."""

    async def one(number: int) -> str:
        answer = await posted(target, path, body, rng, kind)
        if number % 8 == 0:  # it takes time, in which the bystanders could not send
            check_decoders(target)
        return answer

    return await at_once(3 * MOST_UPLOADS, one)


def check_decoders(target: Target) -> None:
    """Raise PromiseBroken if more decoders run than allowed. Some that were killed may still be ending."""
    number = decoders(target)
    if number > 2 * MOST_UPLOADS:
        raise PromiseBroken(f"{number} decoders ran at a time, and the limit is {MOST_UPLOADS}")


def decoders(target: Target) -> int:
    """Return the number of decoder processes of the service."""
    bridge = target.bridge()
    return sum(each.parent == bridge and MODULE in command(each.pid) for each in processes())


async def _answered(connection: RawConnection, sent: bytes) -> str:
    """Send this, and read the answer, which may come before all of it is sent."""
    try:
        await connection.send(sent)
    except CUT_OFF:
        return "cut off"
    status, headers = await connection.head()
    if status == 200 and headers.get("transfer-encoding") == "chunked":
        await connection.last_chunk()
        return "events"
    content = await connection.content(headers)
    if status not in RIGHT:
        raise PromiseBroken(f"{sent[:300]!r} was answered with {status}: {content[:200]!r}")
    if status != 200 and len(refusal(content).split()) < 5:
        raise PromiseBroken(f"{sent[:300]!r} was refused with {status} and without a reason")
    return f"HTTP {status}"


def refusal(content: bytes) -> str:
    """Return the sentence of a refusal in any of the formats."""
    answer = json.loads(content)
    error = next(answer[name] for name in ("err_msg", "detail", "reason", "error_message", "error") if name in answer)
    return str(error["message"] if isinstance(error, dict) else error)
