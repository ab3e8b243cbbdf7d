"""Messages of Azure's Speech SDK, as its clients write and read them."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

TURN = "0123456789ABCDEF0123456789ABCDEF"


def header(kind: int = 1, bits: int = 16, rate: int = 16_000, channels: int = 1) -> bytes:
    """Return the header of a WAV file of unknown length."""
    frame = channels * bits // 8
    content = struct.pack("<4sIHHIIHH", b"fmt ", 16, kind, channels, rate, rate * frame, frame, bits)
    return struct.pack("<4sI4s", b"RIFF", 0, b"WAVE") + content + struct.pack("<4sI", b"data", 0)


def text(path: str, content: object, turn: str = TURN) -> str:
    """Return a message with a body in JSON."""
    head = f"Path: {path}\r\nX-RequestId: {turn}\r\nX-Timestamp: 2026-01-31T12:00:00.000Z\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n{json.dumps(content)}"


def audio(body: bytes = b"", turn: str = TURN) -> bytes:
    """Return a message with audio; without any, it ends the turn."""
    head = f"Path: audio\r\nX-RequestId: {turn}\r\nX-Timestamp: 2026-01-31T12:00:00.000Z\r\n".encode()
    return len(head).to_bytes(2, "big") + head + body


class Answer(NamedTuple):
    """A message of the service."""

    path: str
    content: dict[str, Any]
    turn: str


def read(message: str) -> Answer:
    """Read a message of the service."""
    head, _, body = message.partition("\r\n\r\n")
    fields = dict(row.split(":", 1) for row in head.split("\r\n"))
    return Answer(fields["Path"], json.loads(body), fields["X-RequestId"])
