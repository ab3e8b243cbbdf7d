"""Finds sessions by their tokens, so that a client that lost its connection can go on.

A session may be here, at another worker of this bridge, which then gets the connection, or at another bridge, which
gives the session up.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from streamer.base.codes import ErrorCode
from streamer.base.json_types import JsonObject
from streamer.base.options import Resume
from streamer.bridge.http.websocket import WebSocket
from streamer.bridge.workers.neighbours import Neighbours
from streamer.bridge.workers.others import Alone, Others, bridge_of, worker_of
from streamer.bridge.workers.passing import PassedOn, pass_on

# The most sessions that wait for their clients. Further ones end with their connection, because each keeps messages.
MOST_PARKED: Final = 256
# The most sessions that operators have ended, and whose clients are told so when they return.
MOST_EXPELLED: Final = 1024


class Resumable(Protocol):
    """The driver of a session, as far as resumption is concerned."""

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""

    @property
    def resumable(self) -> bool:
        """Whether the client may resume the session, over a new connection or in place of an older one."""

    def give_up(self) -> None:
        """End the session here, because its client goes on at another bridge."""


Driver = TypeVar("Driver", bound=Resumable)


@dataclass(frozen=True)
class _Entry(Generic[Driver]):
    driver: Driver
    key: str  # the name of the access key that it was opened with
    void: bool = False  # another bridge has claimed it


class Resumption(Generic[Driver]):
    """The sessions of one service that clients may resume."""

    def __init__(self, neighbours: Neighbours | None = None, others: Others | None = None) -> None:
        """`neighbours`: the other workers, which have sessions of their own. `others`: they and other bridges."""
        self._neighbours = neighbours
        self._others = others or Alone()
        self._others.on_claim(self._give_up)
        self._entries: dict[bytes, _Entry[Driver]] = {}
        self._of_keys: Counter[str] = Counter()
        self._expelled: dict[bytes, float] = {}  # until when that is remembered, by the hash of the token

    @property
    def full(self) -> bool:
        """Whether no further session may wait for its client."""
        return sum(entry.driver.parked for entry in self._entries.values()) >= MOST_PARKED

    def add(self, token: str, key: str, driver: Driver) -> None:
        """Allow a client to resume this session with this token and this access key."""
        self._entries[_hash(token)] = _Entry(driver, key)
        self._of_keys[key] += 1

    def remove(self, token: str) -> None:
        """Forget the session of this token, if it was added."""
        entry = self._entries.pop(_hash(token), None)
        if entry is not None:
            self._of_keys[entry.key] -= 1
            if not self._of_keys[entry.key]:
                del self._of_keys[entry.key]

    def expel(self, token: str, seconds: float) -> None:
        """Remember for so long that an operator has ended the session of this token."""
        now = time.monotonic()
        self._expelled = {digest: until for digest, until in self._expelled.items() if until > now}
        if len(self._expelled) >= MOST_EXPELLED:
            del self._expelled[next(iter(self._expelled))]
        self._expelled[_hash(token)] = now + seconds

    def is_expelled(self, token: str) -> bool:
        """Return whether an operator has ended the session of this token, a while ago at most."""
        return self._expelled.get(_hash(token), 0.0) > time.monotonic()

    def find(self, token: str, key: str) -> Driver | None:
        """Return the session of this token; None if it does not exist or belongs to another key."""
        entry = self._entries.get(_hash(token))
        if entry is None or entry.key != key or entry.void or not entry.driver.resumable:
            return None
        return entry.driver

    def is_elsewhere(self, token: str) -> bool:
        """Return whether another worker has the session of this token, if it still exists."""
        is_ours = bridge_of(token) == self._others.bridge
        return is_ours and self._neighbours is not None and self._neighbours.is_other(worker_of(token))

    def is_at_another_bridge(self, token: str) -> bool:
        """Return whether another bridge has the session of this token, if it still exists."""
        return bool(self._others.bridge) and bridge_of(token) not in ("", self._others.bridge)

    async def refresh(self) -> None:
        """Learn which sessions are at another bridge by now, if there may be any."""
        await self._others.refresh()

    async def claim(self, token: str, key: str) -> None:
        """Let another bridge give up the session of this token, if the key is that of the session."""
        await self._others.claim(token, _hash(token), key)

    async def pass_on(self, websocket: WebSocket, resume: Resume, key: str) -> PassedOn | ErrorCode:
        """Give a websocket to the worker that has the session of this token. Return why, if that is not possible."""
        assert self._neighbours is not None
        wanted: JsonObject = {"token": resume.token, "after": resume.after, "key": key}
        return await pass_on(self._neighbours, worker_of(resume.token), websocket, wanted)

    def knows(self, key: str) -> bool:
        """Return whether there is a session of this access key to resume."""
        return key in self._of_keys

    def _give_up(self, digest: bytes, key: str) -> None:
        """Give up the session with this hash of its token, because another bridge goes on with it."""
        entry = self._entries.get(digest)
        if entry is not None and entry.key == key:
            self._entries[digest] = _Entry(entry.driver, key, void=True)
            entry.driver.give_up()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
