"""Finds sessions by their tokens, so that a client that lost its connection can go on.

A token is a secret. Only its hash is kept, so the time of a look-up tells nothing about the tokens that exist.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

# The most sessions that wait for their clients. Further ones end with their connection, because each keeps messages.
MOST_PARKED = 256


class Resumable(Protocol):
    """The driver of a session, as far as resumption is concerned."""

    @property
    def parked(self) -> bool:
        """Whether the client lost its connection and may return."""

    @property
    def resumable(self) -> bool:
        """Whether the client may resume the session, over a new connection or in place of an older one."""


Driver = TypeVar("Driver", bound=Resumable)


@dataclass(frozen=True)
class _Entry(Generic[Driver]):
    driver: Driver
    key: str  # the name of the access key that it was opened with


class Resumption(Generic[Driver]):
    """The sessions of one service that clients may resume."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry[Driver]] = {}
        self._of_keys: Counter[str] = Counter()

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

    def find(self, token: str, key: str) -> Driver | None:
        """Return the session of this token; None if it does not exist or belongs to another key."""
        entry = self._entries.get(_hash(token))
        if entry is None or entry.key != key or not entry.driver.resumable:
            return None
        return entry.driver

    def knows(self, key: str) -> bool:
        """Return whether there is a session of this access key to resume."""
        return key in self._of_keys


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
