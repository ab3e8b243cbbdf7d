"""Attacks by connections that send little or nothing, or that break off before they authenticate."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from workshop.attack.attack import Attack, PromiseBroken, Strike, Target, at_once, start
from workshop.attack.raw_connection import BINARY, CUT_OFF, RawConnection, frame

FAMILY: Final = "connections"
# The service under attack closes silent connections after a few seconds.
SILENT_LIMIT_S: Final = 30.0
HOLD_S: Final = 5.0
# The beginning of a valid TLS handshake: a server that receives it waits for the rest.
CLIENT_HELLO: Final = bytes.fromhex("16030100f4010000f00303") + bytes(range(40))


async def silent(target: Target, rng: random.Random) -> Strike:
    """Open connections and send nothing. The service must soon end all of them."""
    return await _held(target, rng, rng.randrange(20, 150), (b"",), tls=False)


async def silent_tls(target: Target, rng: random.Random) -> Strike:
    """Begin TLS handshakes and do not continue. They must count like other connections, and be ended."""
    beginnings = (b"", CLIENT_HELLO[:5], CLIENT_HELLO, rng.randbytes(50), b"GET / HTTP/1.1\r\n\r\n")
    return await _held(target, rng, 300, beginnings, tls=True)


async def half_open(target: Target, rng: random.Random) -> Strike:
    """End connections at any point of a session, with a reset or without a close."""
    steps = (target.request(), start(live=True), frame(BINARY, bytes(3200)), frame(BINARY, bytes(20_000))[:10_000])

    async def one(number: int) -> str:
        connection = await target.connect()
        try:
            for step in steps[: number % (len(steps) + 1)]:
                await connection.send(step)
                await asyncio.sleep(rng.random() * 0.05)
        finally:
            if number % 2:
                connection.reset()
            else:
                connection.abort()
        return "left"

    return await at_once(10, one)


async def all_descriptors(target: Target, rng: random.Random) -> Strike:
    """Open more connections than the service has descriptors. When they are closed, it must serve new clients."""
    held: list[RawConnection] = []
    strike = Strike()
    target.disturb()
    beginnings = (b"", target.request(), b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n")
    try:
        for number in range(600):
            try:
                connection = await target.connect()
                held.append(connection)
                await connection.send(beginnings[number % len(beginnings)])
                strike.add("held")
            except (*CUT_OFF, asyncio.TimeoutError):
                strike.add("cut off")
        await asyncio.sleep(HOLD_S)
    finally:
        for connection in held:
            connection.abort()
    for _ in range(20):
        try:
            connection = await target.connect()
            await connection.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            if b"alive" in await connection.rest():
                return strike
        except CUT_OFF:
            pass
        await asyncio.sleep(0.5)
    raise PromiseBroken("no client was served any more after all descriptors had been used and freed again")


async def _held(target: Target, rng: random.Random, number: int, beginnings: Sequence[bytes], *, tls: bool) -> Strike:
    chosen = [rng.choice(beginnings) for _ in range(number)]

    async def one(index: int) -> str:
        connection = await target.connect(tls=tls)
        try:
            await connection.send(chosen[index])
            if not await connection.over(SILENT_LIMIT_S):
                # If too many connections wait to be accepted, the client's kernel may show one that does not exist.
                await connection.send(b"?")
                if not await connection.over(SILENT_LIMIT_S):
                    raise PromiseBroken(f"a silent connection was still open after {SILENT_LIMIT_S:g} s")
        finally:
            connection.abort()
        return "cut off"

    return await at_once(number, one)


ATTACKS: Sequence[Attack] = (
    Attack("silent connections", FAMILY, silent, limit_s=120.0),
    Attack("silent handshakes of TLS", FAMILY, silent_tls, limit_s=120.0),
    Attack("half-open connections", FAMILY, half_open, 2),
    Attack("all descriptors", FAMILY, all_descriptors, every_s=60.0, limit_s=180.0),
)
