"""Measures what workers take to count and to pass on what they share, and what other ways to do so would take.

    python scripts/measure/worker_share.py [--rounds 5]

Each line is the processor time of one operation, the median of all rounds with the least and the most in brackets, and
what that is for a second of a session: sessions of a minute that reach a cut every five seconds.

- counting: what a session does at its begin and end, with a key, limits and two other workers
- settling: once in a second, for 100 keys that all send audio, shared by 100 sessions
- passing on: a connection to the worker that has the session, both processes together, once in a minute
- keeping what was told: the alternative that each cut is written into the share, with its words before the cut
- a token that carries it: the same, encrypted and signed for the client at each cut (AES-GCM)
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
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.access.quotas import Caller, QuotaLimits, Quotas
from streamer.bridge.telemetry.logs import Failures
from streamer.bridge.telemetry.usage import Usage
from streamer.bridge.workers.neighbours import Neighbours, Reply
from streamer.bridge.workers.others import Counted
from streamer.bridge.workers.share import Share, SharedRecord
from streamer.commands.arguments import count
from streamer.commands.traffic.report import machine

REPEATS: Final = 300
SESSION_S, CUT_EVERY_S, KEYS = 60.0, 5.0, 100
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
    rounds = parser.parse_args().rounds
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
