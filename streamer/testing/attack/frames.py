"""Makes websocket frames as bytes, including those that no library makes. Does no I/O."""

from __future__ import annotations

import random
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_LONG, _LONGER = 126, 127
# A valid mask that leaves the content readable in a report.
_MASK = bytes(4)


def frame(
    opcode: int,
    data: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    masked: bool = True,
    length: int | None = None,
    widest: bool = False,
) -> bytes:
    """Return a frame. `length`: the claimed length (default: the real one); `widest`: claim it in eight bytes."""
    claimed = len(data) if length is None else length
    first = (fin << 7) | (reserved << 4) | opcode
    if claimed < _LONG and not widest:
        head = struct.pack("!BB", first, (masked << 7) | claimed)
    elif claimed < 1 << 16 and not widest:
        head = struct.pack("!BBH", first, (masked << 7) | _LONG, claimed)
    else:
        head = struct.pack("!BBQ", first, (masked << 7) | _LONGER, claimed)
    return head + (_MASK if masked else b"") + data


def fragments(data: bytes, sizes: list[int], opcode: int = BINARY, between: bytes = b"") -> bytes:
    """Return a message in fragments of these sizes and one with the rest. `between` is put between them."""
    parts, place = [], 0
    for size in sizes:
        parts.append(data[place : place + size])
        place += size
    parts.append(data[place:])
    last = len(parts) - 1
    return between.join(
        frame(opcode if number == 0 else CONTINUATION, part, fin=number == last) for number, part in enumerate(parts)
    )


def wild_frame(rng: random.Random) -> bytes:
    """Return a random frame, in most cases a nearly valid one."""
    odd = rng.random() < 0.3
    opcode = rng.randrange(16) if odd else rng.choice((CONTINUATION, TEXT, BINARY, BINARY, PING, PONG, CLOSE))
    data = rng.randbytes(rng.choice((0, 1, 2, 3, 7, 125, 126, 127, 640, 5000)))
    if opcode == TEXT and rng.random() < 0.7:
        data = rng.choice((b"{}", b"[]", b'{"type":"keepalive"}', b'{"type":"flush"}', b'{"type":"stop"}', b"\xc3\xa9"))
    if opcode in (CLOSE, PING, PONG) and rng.random() < 0.8:
        data = data[:125]
    return frame(
        opcode,
        data,
        fin=rng.random() < 0.8,
        reserved=rng.randrange(8) if rng.random() < 0.1 else 0,
        masked=rng.random() < 0.95,
        length=rng.choice((0, 5, 1 << 16, 1 << 20, 1 << 40, (1 << 63) + 1)) if rng.random() < 0.08 else None,
        widest=rng.random() < 0.05,
    )
