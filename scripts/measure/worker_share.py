"""Measures what workers and bridges take to count and to pass on what they share, and what other ways would take.

    python scripts/measure/worker_share.py [--rounds 5] [--store unix:///tmp/redis.sock]

Each line is the processor time of one operation, the median of all rounds with the least and the most in brackets, and
what that is for a second of a session: sessions of a minute that reach a cut every five seconds.

- counting: what a session does at its begin and end, with a key, limits and two other workers
- settling: once in a second, for 100 keys that all send audio, shared by 100 sessions
- passing on: a connection to the worker that has the session, both processes together, once in a minute
- keeping what was told: the alternative that each cut is written into the share, with its words before the cut
- a token that carries it: the same, encrypted and signed for the client at each cut (AES-GCM)

With a store, which others must not use meanwhile, also what bridges take to share through it. Its own processor time is
part of each figure:

- counting with a store: what a session does at its begin and end
- an exchange: once in a second and whenever sessions begin or end, at most ten times in a second; for a bridge with so
  many sessions of as many keys, beside three others that have as many
- telling audio: once in five seconds, for 100 keys with a full hour each, and the same of three other bridges
- a claim: once in a minute of each session
- keeping what was told in the store: the alternative that each cut is written there, encrypted
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Caller, QuotaLimits, Quotas
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.telemetry.usage import Usage
from streamer.bridge.workers.neighbours import Neighbours, Reply
from streamer.bridge.workers.others import Alone, Counted, token_of
from streamer.bridge.workers.share import Share, SharedRecord
from streamer.bridge.workers.store import AUDIO_EVERY_S, Store
from streamer.commands.arguments import count
from streamer.commands.traffic.report import machine

if TYPE_CHECKING:
    from redis.asyncio import Redis

REPEATS: Final = 300
SESSION_S, CUT_EVERY_S, KEYS = 60.0, 5.0, 100
NEVER: Final = 1e12
# What another worker would need to go on behind a cut.
CUT: Final[JsonObject] = {
    "n": 241,
    "sample": 1_234_567,
    "segment": 17,
    "flushes": 2,
    "ended_ms": 77_120,
    "start": {"encoding": "pcm_s16le", "sample_rate": 16000, "channels": 1, "written": True, "live": True},
    "context": {"words": ["somebody", "speaks"] * 8, "pauses": [120] * 16, "written": "Somebody speaks. " * 8},
}


def main() -> int:
    """Measure, and print a line for each operation. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=count, default=5, help="how often everything is measured (5)")
    parser.add_argument("--store", metavar="URL", help="a store that speaks Redis' protocol; it is emptied")
    options = parser.parse_args()
    rounds = options.rounds
    print(f"{machine()}; rounds: {rounds}, each of {REPEATS} operations")
    with tempfile.TemporaryDirectory(prefix="streamer-share-") as name:
        folder = Path(name)
        record = SharedRecord(folder)
        shares = [Share(folder, number, 3) for number in (1, 2, 3)]
        own = shares[0]
        tell("counting a session", [_counting(own) for _ in range(rounds)], SESSION_S)
        tell("settling 100 keys", [_settling(own) for _ in range(rounds)], KEYS)
        tell("passing a connection on", [asyncio.run(_passing(folder)) for _ in range(rounds)], SESSION_S)
        tell("keeping what was told, a cut", [_keeping(folder) for _ in range(rounds)], CUT_EVERY_S)
        tell("a token that carries it, a cut", [_sealing() for _ in range(rounds)], CUT_EVERY_S)
        print(f"such a token has {_token_bytes()} bytes, for each final of each client")
        for share in shares:
            share.close()
        record.close()
    if options.store:
        asyncio.run(_measure_store(options.store, rounds))
    return 0


def tell(what: str, times_s: list[float], seconds: float) -> None:
    """Print the line of an operation that comes once in so many seconds of a session."""
    milliseconds = [1000 * each for each in times_s]
    middle = median(milliseconds)
    spread = f"{min(milliseconds):.3f}-{max(milliseconds):.3f}"
    print(f"{what}: {middle:.3f} ({spread}) ms; {middle / seconds:.4f} ms for a second of a session")


def _each(work: Callable[[int], object]) -> float:
    began = time.process_time()
    for number in range(REPEATS):
        work(number)
    return (time.process_time() - began) / REPEATS


def _counting(share: Share) -> float:
    quotas = Quotas(QuotaLimits(per_key=1000, per_address=1000), share)

    def session(number: int) -> None:
        admittance = quotas.enter(Caller(f"10.0.0.{number % 250}", f"key {number % KEYS}"))
        with share.exclusive():
            share.count(Counted.SLOTS, "", 100)
            share.count(Counted.SLOTS, "default", 100)
            for _ in range(2):  # at its begin, and at its end
                share.note(Counted.SLOTS, "", number)
                share.note(Counted.SLOTS, "default", number)
                share.note(Counted.SESSIONS, "", number)
        admittance.leave()

    return _each(session)


def _settling(share: Share) -> float:
    def settle(number: int) -> None:
        now = time.time()
        usage = {f"key {key}": Usage(1, float(number)) for key in range(KEYS)}
        hour = {f"key {key}": [(now - 60 * minute, 60.0 + number) for minute in range(60)] for key in range(KEYS)}
        share.settle(usage, hour)
        share.audio_of_others()

    return _each(settle)


async def _passing(folder: Path) -> float:
    taken: list[socket.socket] = []

    async def take(_: JsonObject, gift: socket.socket | None) -> Reply:
        assert gift is not None
        taken.append(gift)
        return Reply({}, keeps=True)

    asked, asking = Neighbours(folder, 1, 2), Neighbours(folder, 2, 2)
    await asked.open({"take": take}, Failures(lambda: None))
    ours, theirs = socket.socketpair()
    question: JsonObject = {"token": "x" * 34, "after": 41, "headers": [["Host", "127.0.0.1"]] * 8, "rest": ""}
    began = time.process_time()
    for _ in range(REPEATS):
        await asking.ask_briefly(1, "take", question, theirs.fileno())
        taken.pop().close()
    used = time.process_time() - began
    await asked.close()
    ours.close()
    theirs.close()
    return used / REPEATS


def _keeping(folder: Path) -> float:
    import sqlite3

    database = sqlite3.connect(folder / "told", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("CREATE TABLE IF NOT EXISTS cuts (token TEXT PRIMARY KEY, cut TEXT) WITHOUT ROWID")

    def keep(number: int) -> None:
        database.execute("INSERT OR REPLACE INTO cuts VALUES (?, ?)", (f"token {number % 100}", json.dumps(CUT)))

    try:
        return _each(keep)
    finally:
        database.close()


async def _measure_store(address: str, rounds: int) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(address) as client:

        async def used(work: Callable[[int], Awaitable[object]]) -> float:
            """Return the processor time of the bridge and of the store for each repetition."""
            before = await _store_time(client)
            began = time.process_time()
            for number in range(REPEATS):
                await work(number)
            own = time.process_time() - began
            return (own + await _store_time(client) - before) / REPEATS

        async def exchanges(bridge: Store, *, with_audio: bool = False) -> float:
            async def exchange(_: int) -> None:
                bridge._audio_at = -NEVER if with_audio else NEVER
                await bridge._exchange(client)

            return await used(exchange)

        others = Quotas(QuotaLimits(per_key=1000, per_address=1000), _bridge(address))
        times = [_each(lambda number: others.enter(_caller(number)).leave()) for _ in range(rounds)]
        tell("counting a session with a store", times, SESSION_S)
        for sessions in (16, KEYS):
            await client.flushdb()
            first, *rest = bridges = [_bridge(address) for _ in range(4)]
            for bridge in bridges:
                quotas = Quotas(QuotaLimits(per_key=1000, per_address=1000), bridge)
                for number in range(sessions):
                    quotas.enter(_caller(number))
            for bridge in (*bridges, *bridges):  # they meet, and then read each other
                await bridge._exchange(client)
            times = [await exchanges(first) for _ in range(rounds)]
            tell(f"an exchange, {sessions} sessions", times, sessions)
        now = time.time()
        hour = {f"key {key}": [(now - 60 * minute, 60.0) for minute in range(59)] for key in range(KEYS)}
        for bridge in bridges:
            bridge.settle({}, hour)
            bridge._audio_at = -NEVER
            await bridge._exchange(client)
        audio = [await exchanges(first, with_audio=True) for _ in range(rounds)]
        tell("telling audio, with an exchange", audio, AUDIO_EVERY_S * KEYS)
        token = token_of(rest[0].bridge, 0, "x" * 32)

        async def claim(_: int) -> None:
            first._audio_at = NEVER
            await first.claim(token, bytes(32), "key 1")
            await first._exchange(client)

        tell("a claim, with an exchange", [await used(claim) for _ in range(rounds)], SESSION_S)
        kept = [await used(lambda number: client.set(f"cut {number % 100}", _seal(), ex=30)) for _ in range(rounds)]
        tell("keeping what was told in the store, a cut", kept, CUT_EVERY_S)
        await client.flushdb()


def _bridge(address: str) -> Store:
    return Store(address, b"a secret that is only for this measurement", Alone())


def _caller(number: int) -> Caller:
    return Caller(f"10.0.0.{number % 250}", f"key {number % KEYS}")


async def _store_time(client: Redis) -> float:
    figures = await client.info("cpu")
    return float(figures["used_cpu_user"]) + float(figures["used_cpu_sys"])


def _seal() -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(12)
    return nonce + AESGCM(bytes(32)).encrypt(nonce, json.dumps(CUT).encode(), None)


def _sealing() -> float:
    return _each(lambda _: _seal())


def _token_bytes() -> int:
    return len(_seal()) * 4 // 3  # as text


if __name__ == "__main__":
    sys.exit(main())
