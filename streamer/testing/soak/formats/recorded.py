"""Recordings as files, and requests over HTTP that send them piece by piece."""

from __future__ import annotations

import asyncio
import io
import struct
from collections.abc import AsyncIterator

import soundfile  # type: ignore[import-untyped]

from streamer.audio.sample_converter import SAMPLE_RATE
from streamer.testing.soak.session_plan import SessionPlan

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
