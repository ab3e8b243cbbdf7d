"""What the workers of one service count together: a database in their private folder, which no process serves.

Each worker writes what it has itself, and reads the sum of the others. A worker that dies leaves rows, which the
supervising process removes. Nothing is read or written on the path of a chunk: sessions are counted when they begin and
end, audio and usage once in a second, metrics when somebody asks for them. If the database cannot be used for a moment,
a worker goes on alone, with its part of each limit, and writes everything again when it can.

[A record](../../../docs/decisions/workers.md) has the reasons.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.usage import ByKey, HourOfAudio, Usage
from streamer.bridge.workers.joined_metrics import Past, Words
from streamer.bridge.workers.others import BucketState, Counted, KeptKey, OneBridge

log = Log("streamer.bridge")

FILE: Final = "share"
# A worker that was stopped while it counts may hold the database. The others do not wait for it.
WAIT_S: Final = 0.25
# What is no worker's any more, because it died, or because another process has written it into the usage file.
NOBODY: Final = 0
_DIGEST_BYTES: Final = 16  # of a list of hotwords
# For so long it is known that a worker has ended: an answer that it gave before may come so late to who asked.
ENDED_S: Final = 300.0

_SCHEMA: Final = """
CREATE TABLE counts (worker INTEGER, kind TEXT, name TEXT, number INTEGER, PRIMARY KEY (kind, name, worker))
    WITHOUT ROWID;
CREATE TABLE buckets (kind TEXT, name TEXT, level REAL, level_at REAL, lists BLOB, PRIMARY KEY (kind, name))
    WITHOUT ROWID;
CREATE TABLE keys (digest BLOB PRIMARY KEY, holder TEXT, holder_digest BLOB, expires_at REAL, content TEXT)
    WITHOUT ROWID;
CREATE TABLE usage (worker INTEGER, key TEXT, sessions INTEGER, audio_s REAL, refusals INTEGER,
    PRIMARY KEY (worker, key)) WITHOUT ROWID;
CREATE TABLE audio (worker INTEGER, key TEXT, minutes TEXT, PRIMARY KEY (worker, key)) WITHOUT ROWID;
CREATE TABLE words (worker INTEGER PRIMARY KEY, at REAL, exposition BLOB);
CREATE TABLE secrets (salt BLOB);
"""
MOST_BUCKETS: Final = 4096
_BUCKET_S: Final = 60.0  # after this time a budget that was not used is whole again


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
    # A worker that is killed must leave the others a database that they can read: the log of writes does. Nothing of
    # this outlives the machine, so no write waits for the disk.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
    return connection


class Share(OneBridge):
    """The share of one worker: what it counts, and what the others do."""

    def __init__(self, folder: Path, worker: int, workers: int) -> None:
        """`worker`: a number that no other process of the service has or had. `workers`: how many there are."""
        self._path, self.identity, self._workers = folder / FILE, worker, workers
        self._own: dict[tuple[str, str], int] = {}
        self._keys: dict[bytes, KeptKey] = {}  # made while the database was away
        self._written: dict[str, tuple[int, float, int]] = {}  # the usage that the others know
        self._audio: dict[str, str] = {}  # the audio of the hour that the others know
        self._database: sqlite3.Connection | None = _connect(self._path)
        [self.salt] = self._database.execute("SELECT salt FROM secrets").fetchone()

    @property
    def away(self) -> bool:
        """Whether the database cannot be used now."""
        return self._database is None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let no other worker count inside this block."""
        database = self._database
        if database is not None:
            with self._trying():
                database.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            if database is not None and database is self._database and database.in_transaction:
                with self._trying():
                    database.execute("COMMIT")

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return how many of these the others have."""
        if self._database is not None:
            with self._trying():
                query = "SELECT sum(number) FROM counts WHERE kind = ? AND name = ? AND worker != ?"
                [number] = self._database.execute(query, (kind.value, name, self.identity)).fetchone()
                return int(number or 0)
        return most - max(1, most // self._workers) if most > 0 else 0

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Tell the others how many of these this worker has."""
        if number:
            self._own[kind.value, name] = number
        else:
            self._own.pop((kind.value, name), None)
        if self._database is not None:
            with self._trying():
                self._write_count(self._database, kind.value, name, number)

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return how much of a budget all workers have used."""
        if self._database is None:
            return None
        with self._trying():
            query = "SELECT level, level_at, lists FROM buckets WHERE kind = ? AND name = ?"
            row = self._database.execute(query, (kind, name)).fetchone()
            if row is not None:
                level, level_at, lists = row
                starts = range(0, len(lists), _DIGEST_BYTES)
                return BucketState(level, level_at, [lists[at : at + _DIGEST_BYTES] for at in starts])
        return None

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Tell the others how much of a budget is used."""
        if self._database is None:
            return
        with self._trying():
            row = (kind, name, state.level, state.level_at, b"".join(state.lists))
            self._database.execute("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?, ?, ?)", row)
            [number] = self._database.execute("SELECT count(*) FROM buckets").fetchone()
            if number > MOST_BUCKETS:
                oldest = "SELECT level_at FROM buckets ORDER BY level_at DESC LIMIT 1 OFFSET ?"
                delete = f"DELETE FROM buckets WHERE level_at < ? OR level_at <= ({oldest})"
                self._database.execute(delete, (state.level_at - 2 * _BUCKET_S, MOST_BUCKETS))

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Make a key for a short time valid at each worker; at this one alone while the database is away."""
        self._keys[digest] = key
        self._write_keys()

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Return the key for a short time with this digest."""
        if self._database is not None:
            with self._trying():
                query = "SELECT holder, holder_digest, expires_at, content FROM keys WHERE digest = ?"
                row = self._database.execute(query, (digest,)).fetchone()
                if row is not None:
                    return KeptKey(*row)
        return self._keys.get(digest)

    def keys(self, now: float) -> list[tuple[str, float]]:
        """Return the holders and the ends of all keys for a short time, and forget those that have ended."""
        self._keys = {digest: key for digest, key in self._keys.items() if now < key.expires_at}
        if self._database is not None:
            with self._trying():
                self._database.execute("DELETE FROM keys WHERE expires_at <= ?", (now,))
                return list(self._database.execute("SELECT holder, expires_at FROM keys"))
        return [(key.holder, key.expires_at) for key in self._keys.values()]

    def settle(self, usage: ByKey, hour: HourOfAudio) -> None:
        """Tell the others what was used since the last call, and everything if the database was away."""
        if self._database is None:
            self._return()
        if self._database is None:
            return
        totals = {key: (each.sessions, each.audio_s, each.refusals) for key, each in usage.items() if key}
        audio = {key: json.dumps(minutes) for key, minutes in hour.items()}
        rows = [(key, *total) for key, total in totals.items() if total != self._written.get(key)]
        minutes = [(key, text) for key, text in audio.items() if text != self._audio.get(key)]
        if not (rows or minutes):
            return
        with self.exclusive(), self._trying() as database:
            if database is None:  # it is held by another worker
                return
            insert = "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?)"
            database.executemany(insert, [(self.identity, *row) for row in rows])
            insert = "INSERT OR REPLACE INTO audio VALUES (?, ?, ?)"
            database.executemany(insert, [(self.identity, *row) for row in minutes])
            self._written, self._audio = totals, audio

    def audio_of_others(self) -> HourOfAudio:
        """Return the audio of the last hour that others received, by key."""
        if self._database is None:
            return {}
        with self._trying():
            return _hour(self._database.execute("SELECT key, minutes FROM audio WHERE worker != ?", (self.identity,)))
        return {}

    def keep_words(self, words: Iterable[Words]) -> Past | None:
        """Keep what workers say of their metrics, for the time when they have ended. Return the past besides it.

        None if that is not known, because the database is away.
        """
        said = {each.identity: each for each in words}
        with self.exclusive(), self._trying() as database:
            if database is None:
                return None
            # What was said later may be here already, and what has ended is part of the past.
            insert = (
                "INSERT INTO words VALUES (?, ?, ?) ON CONFLICT (worker) DO UPDATE SET at = excluded.at, "
                "exposition = excluded.exposition WHERE exposition IS NOT NULL AND at < excluded.at"
            )
            database.executemany(insert, [(each.identity, each.at, each.exposition) for each in said.values()])
            rows = dict(database.execute("SELECT worker, exposition FROM words"))
            query = "SELECT sum(number) FROM counts WHERE kind = ?"
            [starts] = database.execute(query, (Counted.STARTS.value,)).fetchone()
            ended = {identity for identity, exposition in rows.items() if exposition is None}
            past = [exposition for identity, exposition in rows.items() if identity not in {*ended, *said}]
            return Past(past, int(starts or 0), ended)
        return None

    def close(self) -> None:
        """Leave the others nothing but what was used."""
        if self._database is not None:
            with self._trying():
                self._database.execute("DELETE FROM counts WHERE worker = ?", (self.identity,))
        if self._database is not None:
            self._database.close()
            self._database = None

    @contextmanager
    def _trying(self) -> Iterator[sqlite3.Connection | None]:
        """Give the database, and go on alone after an error."""
        try:
            yield self._database
        except sqlite3.Error as error:
            database, self._database = self._database, None
            if database is not None:
                log.warning("workers count alone", reason=str(error))
                with suppress(sqlite3.Error):
                    database.close()

    def _return(self) -> None:
        """Write everything that this worker has, if the database can be used again."""
        if not self._path.exists():  # it would be made anew, and empty
            return
        try:
            database = _connect(self._path)
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM counts WHERE worker = ?", (self.identity,))
            for (kind, name), number in self._own.items():
                self._write_count(database, kind, name, number)
            database.execute("COMMIT")
        except sqlite3.Error:
            return
        self._database, self._written, self._audio = database, {}, {}
        self._write_keys()
        log.info("workers count together again")

    def _write_count(self, database: sqlite3.Connection, kind: str, name: str, number: int) -> None:
        if number:
            row = (self.identity, kind, name, number)
            database.execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)", row)
        else:
            delete = "DELETE FROM counts WHERE worker = ? AND kind = ? AND name = ?"
            database.execute(delete, (self.identity, kind, name))

    def _write_keys(self) -> None:
        if self._database is not None:
            with self._trying():
                rows = [(digest, *key) for digest, key in self._keys.items()]
                self._database.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)", rows)
                self._keys = {}


class SharedRecord:
    """The share as the supervising process has it: it makes it, reads what was used, and clears up behind workers."""

    def __init__(self, folder: Path, hour: HourOfAudio | None = None) -> None:
        """`hour`: the audio that an earlier service received in the last hour."""
        self._usage: ByKey = {}
        self._last_hour: HourOfAudio = hour or {}
        self._database = _connect(folder / FILE)
        self._database.executescript(_SCHEMA)
        self._database.execute("INSERT INTO secrets VALUES (?)", (secrets.token_bytes(16),))
        rows = [(NOBODY, key, json.dumps(minutes)) for key, minutes in (hour or {}).items()]
        self._database.executemany("INSERT INTO audio VALUES (?, ?, ?)", rows)

    def bury(self, worker: int) -> bool:
        """Remove what a worker has that ended, and keep what it used. Return whether that was possible now."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:  # a stopped worker has it
            return False
        try:
            with database:  # all of it or nothing
                database.execute("DELETE FROM counts WHERE worker = ?", (worker,))
                database.execute(
                    "INSERT INTO usage SELECT ?, key, sessions, audio_s, refusals FROM usage WHERE worker = ? "
                    "ON CONFLICT (worker, key) DO UPDATE SET sessions = sessions + excluded.sessions, "
                    "audio_s = audio_s + excluded.audio_s, refusals = refusals + excluded.refusals",
                    (NOBODY, worker),
                )
                database.execute("DELETE FROM usage WHERE worker = ?", (worker,))
                parts = [*database.execute("SELECT key, minutes FROM audio WHERE worker IN (?, ?)", (NOBODY, worker))]
                database.execute("DELETE FROM audio WHERE worker IN (?, ?)", (NOBODY, worker))
                rows = [(NOBODY, key, json.dumps(minutes)) for key, minutes in _hour(parts).items()]
                database.executemany("INSERT INTO audio VALUES (?, ?, ?)", rows)
                self._bury_words(worker)
                return True
        except sqlite3.Error:
            pass
        return False

    def note_starts(self, number: int) -> None:
        """Tell the workers how many processes were started. If that is not possible now, the next start says it."""
        with suppress(sqlite3.Error):
            row = (NOBODY, Counted.STARTS.value, "", number)
            self._database.execute("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?)", row)

    def usage(self) -> ByKey:
        """Return what each key has used since the start, as far as that could be read last."""
        query = "SELECT key, sum(sessions), sum(audio_s), sum(refusals) FROM usage GROUP BY key"
        with suppress(sqlite3.Error):
            self._usage = {key: Usage(*rest) for key, *rest in self._database.execute(query)}
        return self._usage

    def hour(self) -> HourOfAudio:
        """Return the audio of the last hour by key, as far as that could be read last."""
        with suppress(sqlite3.Error):
            self._last_hour = _hour(self._database.execute("SELECT key, minutes FROM audio"))
        return self._last_hour

    def past(self) -> list[bytes]:
        """Return what workers that have ended said last: the words of all until the last `keep_past`, and newer ones.

        To join them takes longer than a worker waits for the share, so it must be done outside.
        """
        query = "SELECT exposition FROM words WHERE worker <= ?"
        with suppress(sqlite3.Error):
            return [exposition for [exposition] in self._database.execute(query, (NOBODY,)).fetchall()]
        return []

    def keep_past(self, past: bytes) -> None:
        """Keep these words in place of those that `past` returns, if that is possible now."""
        with suppress(sqlite3.Error), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("DELETE FROM words WHERE worker <= ?", (NOBODY,))
            self._database.execute("INSERT INTO words VALUES (?, 0, ?)", (NOBODY, past))

    def _bury_words(self, worker: int) -> None:
        """Keep the last words of a worker, and note that it has ended."""
        now = time.monotonic()
        self._database.execute("DELETE FROM words WHERE exposition IS NULL AND at < ?", (now - ENDED_S,))
        # A negative number is that of nobody: no worker writes there.
        move = "UPDATE words SET worker = -worker WHERE worker = ? AND exposition IS NOT NULL"
        self._database.execute(move, (worker,))
        self._database.execute("INSERT OR REPLACE INTO words VALUES (?, ?, NULL)", (worker, now))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _hour(rows: Iterable[tuple[str, str]]) -> HourOfAudio:
    hour: HourOfAudio = {}
    since = time.time() - 3600
    for key, text in rows:
        hour.setdefault(key, []).extend((start, seconds) for start, seconds in json.loads(text) if start > since)
    return {key: sorted(minutes) for key, minutes in hour.items() if minutes}
