"""Attacks by uploaded recordings: damaged, lying and far too long ones, forms, requests within bodies, and floods."""

from __future__ import annotations

import io
import json
import random
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import soundfile  # type: ignore[import-untyped]

from streamer.audio.arriving.process import MODULE
from streamer.limits import MOST_UPLOADS
from streamer.testing.attack.attack import Attack, PromiseBroken, Strike, at_once
from streamer.testing.attack.families.http_requests import mutated
from streamer.testing.attack.raw_connection import CUT_OFF, RawConnection
from streamer.testing.attack.target import Target
from streamer.testing.exact_speech import say
from streamer.wire.native_upload import PATH
from streamer.wire.openai_upload import PATH as OPENAI_PATH

FAMILY: Final = "uploads"
# 500 is never right. 503: the service is full, or the recogniser was killed.
RIGHT: Final = (200, 400, 401, 408, 413, 415, 422, 429, 503)
_WORD: Final = "hostile"
_BOUNDARY: Final = "frontier"
_HIDDEN: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
# Formats that libsndfile or ffmpeg read: what comes behind these beginnings is random.
_BEGINNINGS: Final = (
    *(b"RIFF\xff\xff\xff\xffWAVE", b"RF64\xff\xff\xff\xffWAVE", b"fLaC", b"OggS", b"ID3\x04\0\0\x7f\x7f\x7f\x7f"),
    *(b"FORM\0\0\0\0AIFF", b".snd", b"caff", b"\x1aE\xdf\xa3", b"\0\0\0\x20ftypisom", b"FLV\x01", b"#!AMR\n"),
    *(b"\xff\xfb\x90\x64", b"\xff\xf1\x50\x80", b"#EXTM3U\n/etc/passwd\n", b"ffconcat version 1.0\nfile /etc/passwd\n"),
)


async def wild_recordings(target: Target, rng: random.Random) -> Strike:
    """Recordings with bytes changed, left out or doubled, and random bytes behind the beginning of a format."""

    async def one(_: int) -> str:
        if rng.random() < 0.5:
            body = mutated(_recording(rng.choice(("WAV", "FLAC", "OGG", "AIFF", "CAF"))), rng)
        else:
            body = rng.choice(_BEGINNINGS) + rng.randbytes(rng.randrange(60_000))
        return await _posted(target, body, rng)

    return await at_once(6, one)


async def bombs(target: Target, rng: random.Random) -> Strike:
    """Small files that are enormous once decoded, or say so, or say nothing of it."""
    silence = _recording("FLAC", np.zeros(16_000 * 120, np.int16))
    claims = bytearray(silence)
    claims[21:26] = rng.choice((b"\xff" * 5, b"\x01\0\0\0\0", bytes(5)))  # among it the number of samples
    rates = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 1, 65535, 1, 1, 2, 16, b"data", 1 << 30
    )
    wide = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 3, 8, 1 << 31, 1, 32, 32, b"data", 0)
    return await at_once(
        4,
        lambda number: _posted(target, (bytes(claims), rates + bytes(5000), wide + bytes(5000), silence)[number], rng),
    )


async def forms(target: Target, rng: random.Random) -> Strike:
    """Forms with bytes changed, too many fields, endless heads, and boundaries within boundaries."""
    strike = Strike()
    wav = _recording("WAV")
    whole = _form(("model", b"x"), ("response_format", b"json"), ("file", wav), ("late", b"1" * rng.randrange(200)))
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="'.encode()
    for body in (
        mutated(whole[:300], rng) + whole[300:],
        _form(*[("a", b"b")] * rng.choice((300, 2000)), ("file", wav)),
        _form(("a", bytes(200_000)), ("file", wav)),
        head + b"a" * rng.randrange(100_000),
        (f"--{_BOUNDARY}\r\n" * 5000).encode(),
        (f"\r\n--{_BOUNDARY}" * 5000).encode(),
        whole[: rng.randrange(len(whole))],
    ):
        path = rng.choice((PATH, OPENAI_PATH))
        kind = f"Content-Type: multipart/form-data; boundary={_BOUNDARY}"
        strike.add(await _posted(target, body, rng, path, kind))
    return strike


async def gone(target: Target, rng: random.Random) -> Strike:
    """Clients that go away at any point, with a reset or silently."""
    wav = _recording("WAV", np.tile(say(_WORD), 20))

    async def one(_: int) -> str:
        connection = await target.connect()
        try:
            head = _head(target, f"{PATH}?stream={rng.choice(('true', 'false'))}", f"Content-Length: {len(wav)}")
            await connection.send((head + wav)[: rng.randrange(len(head) + len(wav))])
            await connection.over(rng.random())
        finally:
            (connection.reset if rng.random() < 0.5 else connection.abort)()
        return "went away"

    return await at_once(8, one)


async def hidden(target: Target, rng: random.Random) -> Strike:
    """A request within the body of a recording that has two lengths: it must not be answered."""
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
            await connection.send(_head(target, PATH, lengths.decode()) + b"0\r\n\r\n" + _HIDDEN)
            told = await connection.rest()
        finally:
            connection.abort()
        if len(re.findall(rb"HTTP/1\.1 \d{3} ", told)) > 1 or b"alive" in told:
            raise PromiseBroken(f"a request within a recording with {lengths!r} was answered: {told[:300]!r}")
        strike.add(f"HTTP {_status(told)}" if told else "cut off")
    return strike


async def flood(target: Target, rng: random.Random) -> Strike:
    """Far more recordings at once than are taken; no more decoders run than there may be."""
    wav = _recording("WAV")
    most = 0

    async def one(_: int) -> str:
        nonlocal most
        answer = await _posted(target, wav, rng)
        most = max(most, _decoders(target))
        return answer

    strike = await at_once(3 * MOST_UPLOADS, one)
    # A decoder that was killed may still be ending.
    if most > 2 * MOST_UPLOADS:
        raise PromiseBroken(f"{most} decoders ran at a time, and the limit is {MOST_UPLOADS}")
    return strike


async def unread(target: Target, rng: random.Random) -> Strike:
    """Events that the client does not read while it sends: the service stops reading, and cuts it off."""
    connection = await target.connect()
    try:
        path = f"{PATH}?stream=true&partial_words=true&encoding=pcm_s16le"
        await connection.send(_head(target, path, "Transfer-Encoding: chunked"))
        pcm = np.tile(say(_WORD), 5).tobytes()
        sent = await connection.stuff(f"{len(pcm):x}\r\n".encode() + pcm + b"\r\n", 100_000_000, quiet_s=2.0)
    finally:
        connection.reset()
    if sent >= 100_000_000:
        raise PromiseBroken("the service read an endless recording from a client that does not read the events")
    strike = Strike()
    strike.add("read no further")
    return strike


async def _posted(target: Target, body: bytes, rng: random.Random, path: str = PATH, kind: str = "X: y") -> str:
    """Upload this, with its length or in chunks. Returns the status; a word from another upload breaks a promise."""
    connection = await target.connect()
    try:
        if rng.random() < 0.5:
            sent = _head(target, path, f"Content-Length: {len(body)}", kind) + body
        else:
            size = max(1, len(body) // rng.choice((1, 3, 50)))
            pieces = [body[start : start + size] for start in range(0, len(body), size)]
            chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
            sent = _head(target, path, "Transfer-Encoding: chunked", kind) + chunks + b"0\r\n\r\n"
        return await _answered(connection, sent)
    except CUT_OFF:
        return "cut off"
    finally:
        connection.abort()


async def _answered(connection: RawConnection, sent: bytes) -> str:
    """Send this, and read the answer, which may come before all of it is sent."""
    try:
        await connection.send(sent)
    except CUT_OFF:
        return "cut off"
    status, headers = await connection.head()
    content = await connection.content(headers)
    if status not in RIGHT:
        raise PromiseBroken(f"{sent[:300]!r} was answered with {status}: {content[:200]!r}")
    answer = json.loads(content)
    if status != 200 and not answer["error"]["message"]:
        raise PromiseBroken(f"{sent[:300]!r} was refused with {status} and without a reason")
    return f"HTTP {status}"


def _head(target: Target, path: str, *fields: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {target.hostile_key}", *fields]
    return "\r\n".join([*lines, "", ""]).encode()


def _recording(format: str, audio: np.ndarray | None = None) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    soundfile.write(file, say(_WORD) if audio is None else audio, 16_000, format=format)
    return file.getvalue()


def _form(*fields: tuple[str, bytes]) -> bytes:
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in fields
    ]
    return b"".join(parts) + f"--{_BOUNDARY}--\r\n".encode()


def _status(told: bytes) -> int:
    return int(told.split(b" ", 2)[1])


def _decoders(target: Target) -> int:
    """The number of decoder processes of the service."""
    bridge, found = target.bridge(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found += parent == bridge and MODULE in (folder / "cmdline").read_text()
        except OSError:
            continue
    return found


ATTACKS: Sequence[Attack] = (
    Attack("wild recordings", FAMILY, wild_recordings, 4),
    Attack("bombs", FAMILY, bombs),
    Attack("broken forms", FAMILY, forms, 2),
    Attack("clients that go away", FAMILY, gone, 2),
    Attack("requests within recordings", FAMILY, hidden, 2),
    Attack("a flood of recordings", FAMILY, flood, every_s=20.0),
    Attack("events that are not read", FAMILY, unread),
)
