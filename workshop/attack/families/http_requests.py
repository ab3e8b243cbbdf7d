"""Attacks by plain HTTP: nonsense, smuggled requests, slow clients and floods."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Final

from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, at_once, mutated
from workshop.attack.raw_connection import CUT_OFF, RawConnection

FAMILY: Final = "http"
# The statuses that may answer nonsense. 500 is never right.
REFUSALS: Final = (400, 401, 403, 404, 405, 408, 413, 426, 429, 431, 501, 503, 505)
SERVED: Final = (200, 304, 101)
PIPELINED: Final = (
    ("GET /healthz", 200),
    ("HEAD /healthz", 200),
    ("GET /nothing", 404),
    ("GET //[", 404),
    ("DELETE /", 405),
    ("GET /%2e%2e/etc/passwd", 404),
    ("POST /healthz", 405),
    ("OPTIONS *", 404),
)
SEEDS: Final = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/stream HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
    b"GET /v1/stream HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Version: 13\r\n\r\n",
)
_HIDDEN: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
_POST: Final = b"POST /healthz HTTP/1.1\r\nHost: a\r\n"
# Two lengths, or one that different servers read differently: the request inside the body must not be answered.
SMUGGLED: Final = (
    _POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 100\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: 0, 36\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: +0\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: 0x0\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: -1\r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length: \r\n\r\n" + _HIDDEN,
    _POST + b"Content-Length : 0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked\r\n\r\n-0\r\n\r\n" + _HIDDEN,
    _POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + _HIDDEN,
    _POST + b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 36\r\n\r\n" + _HIDDEN,
    _POST + b"X: a\rContent-Length: 36\r\n\r\n" + _HIDDEN,
    _POST + b"X: a\0b\r\nContent-Length: 36\r\n\r\n" + _HIDDEN,
    b"POST /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
)
_LARGE_PIECE: Final = b"X-%08d: " + b"a" * 200 + b"\r\n"


async def nonsense(target: Target, rng: random.Random) -> Strike:
    """Send requests with bytes changed, left out or doubled. Invalid ones must get a proper answer."""
    strike = Strike()
    for _ in range(20):
        answer = await _answer(target, mutated(rng.choice(SEEDS), rng))
        strike.add(answer)
    return strike


async def pipelined(target: Target, rng: random.Random) -> Strike:
    """Send hundreds of requests at once. Each must get its own answer, in order."""
    strike = Strike()
    chosen = [rng.choice(PIPELINED) for _ in range(rng.choice((50, 200, 500)))]
    connection = await target.connect()
    try:
        requests = b"".join(f"{line} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for line, _ in chosen)
        sending = asyncio.create_task(connection.send(requests))
        try:
            for line, status in chosen:
                actual, headers = await connection.head()
                if actual == 503:  # too many requests are being answered at a time
                    strike.add("HTTP 503")
                    break
                if actual != status:
                    raise PromiseBroken(f"{line!r} among other requests was answered with {actual}, not {status}")
                if not line.startswith("HEAD"):
                    await connection.content(headers)
                strike.add(f"HTTP {actual}")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    finally:
        connection.abort()
    return strike


async def smuggled(target: Target, rng: random.Random) -> Strike:
    """Hide a request in the body of another one that has two lengths. It must not be answered."""
    strike = Strike()
    for sent in rng.sample(SMUGGLED, 8):
        connection = await target.connect()
        try:
            await connection.send(sent)
            answer = await connection.rest()
        finally:
            connection.abort()
        if (answers := len(re.findall(rb"HTTP/1\.1 \d{3} ", answer))) > 1 or b"alive" in answer:
            raise PromiseBroken(f"there were {answers} answers to {sent!r}")
        strike.add(f"HTTP {_status(answer)}" if answer else "cut off")
    return strike


async def slow_heads(target: Target, rng: random.Random) -> Strike:
    """Send requests byte by byte. They must be cut off within the limit, whatever they contain."""
    heads = [rng.choice(SEEDS)[:-2] for _ in range(20)]

    async def one(number: int) -> str:
        connection = await target.connect()
        try:
            return await _trickle(connection, heads[number])
        finally:
            connection.abort()

    return await at_once(len(heads), one)


async def large_heads(target: Target, rng: random.Random) -> Strike:
    """Send requests with very long header fields, names and paths."""
    strike = Strike()
    heads = (
        b"GET /" + b"a" * rng.randrange(1 << 18) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(_LARGE_PIECE % n for n in range(rng.randrange(500))) + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"a" * rng.randrange(1 << 18),
        b"GET / HTTP/1.1\r\nHost: a\r\nCookie: " + b";" * rng.randrange(1 << 18) + b"\r\n\r\n",
    )
    for head in heads:
        strike.add(await _answer(target, head))
    return strike


async def bodies(target: Target, rng: random.Random) -> Strike:
    """Send bodies that are not allowed, or that never arrive. The service must refuse them after a small part."""
    strike = Strike()
    sent = (
        _POST + b"Content-Length: 999999999999\r\n\r\n" + bytes(1 << 16),
        _POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        _POST + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
        _POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * rng.randrange(5000),
        _POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * rng.randrange(100_000),
        _POST + b"Transfer-Encoding: chunked\r\n\r\n" + rng.randbytes(500),
    )
    for each in sent:
        strike.add(await _answer(target, each))
    return strike


async def administration(target: Target, rng: random.Random) -> Strike:
    """Ask for the sessions of all keys, and try to end some, with keys that are not for that. Nothing may be told."""
    strike = Strike()
    for _ in range(12):
        number = rng.choice((f"{rng.getrandbits(64):016x}", "..%2f", "%00", "*", "a" * rng.randrange(1, 4000), ""))
        method, path = rng.choice(
            (
                ("GET", "sessions"),
                ("DELETE", f"sessions/{number}"),
                ("DELETE", "sessions"),
                ("GET", f"sessions/{number}"),
                ("GET", f"usage?day={number}"),
            )
        )
        key = rng.choice(("", f"Authorization: Bearer {target.hostile_key}\r\n", "Authorization: Bearer admin\r\n"))
        sent = f"{method} /v1/admin/{path} HTTP/1.1\r\nHost: a\r\n{key}\r\n".encode()
        answer = await _answer(target, sent)
        # Others may hold all connections that are served: then it is cut off.
        if answer not in ("HTTP 401", "HTTP 403", "HTTP 404", "HTTP 405", "HTTP 429", "HTTP 503", "cut off"):
            raise PromiseBroken(f"{sent[:200]!r} was answered with {answer}")
        strike.add(answer)
    return strike


async def unread(target: Target, rng: random.Random) -> Strike:
    """Send endless requests, and read no answer. The service must stop reading and cut the connection."""
    strike = Strike()
    request = b"GET /page/nothing HTTP/1.1\r\nHost: a\r\n\r\n" * 100
    connection = await target.connect()
    try:
        sent = await connection.stuff(request, 20_000_000)
    finally:
        connection.reset()
    if sent >= 20_000_000:
        raise PromiseBroken("the service read endless requests from a client that does not read the answers")
    strike.add("read no further", sent * 100 // len(request))
    return strike


async def _answer(target: Target, sent: bytes) -> str:
    """Send this, end the sending side, and return the status of the first answer.

    The sending side is ended so that the service does not wait for the rest of an incomplete request.
    """
    connection = await target.connect()
    try:
        await connection.send(sent)
        connection.half_close()
        answer = await connection.rest()
    except CUT_OFF:
        return "cut off"
    finally:
        connection.abort()
    if not answer:
        return "cut off"
    status = _status(answer)
    if status not in (*REFUSALS, *SERVED, 100):
        raise PromiseBroken(f"{sent[:200]!r} was answered with {answer[:100]!r}")
    return f"HTTP {status}"


def _status(answer: bytes) -> int:
    first = answer.split(b"\r\n", 1)[0].split()
    if len(first) < 2 or first[0] != b"HTTP/1.1" or not first[1].isdigit():
        raise PromiseBroken(f"this is not an HTTP answer: {answer[:100]!r}")
    return int(first[1])


async def _trickle(connection: RawConnection, head: bytes) -> str:
    while True:
        for byte in head:
            await connection.send(bytes([byte]))
            if await connection.over(0.2):
                return "cut off"
        head = b"X: y\r\n"


ATTACKS: Sequence[Attack] = (
    Attack("nonsense", FAMILY, nonsense, 4),
    Attack("pipelined requests", FAMILY, pipelined, 4),
    Attack("smuggled requests", FAMILY, smuggled, 2),
    Attack("slow heads", FAMILY, slow_heads),
    Attack("large heads", FAMILY, large_heads),
    Attack("unwanted bodies", FAMILY, bodies),
    Attack("administration", FAMILY, administration),
    Attack("answers that are not read", FAMILY, unread),
)
