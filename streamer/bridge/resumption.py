"""Where sessions are found by their tokens: who comes back goes on where the connection was lost.

A token is a secret, so it is kept as a hash: how long it takes to find one tells nothing about those that there are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

# Sessions whose client is away, at a time. More than that end with their connection: each keeps its messages.
MOST_PARKED = 256


class Resumable(Protocol):
    """What is looked for: whoever drives a session."""

    @property
    def parked(self) -> bool:
        """Whether nobody is connected, but somebody may come back."""

    @property
    def resumable(self) -> bool:
        """Whether its client may come back, or take it over from an older connection."""


Driver = TypeVar("Driver", bound=Resumable)


@dataclass(frozen=True)
class _Entry(Generic[Driver]):
    driver: Driver
    key: str  # the name of the access key that it was opened with


class Resumption(Generic[Driver]):
    """The sessions of one service that somebody may resume."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry[Driver]] = {}
        self._of_keys: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether no more clients may be away."""
        return sum(entry.driver.parked for entry in self._entries.values()) >= MOST_PARKED

    def add(self, token: str, key: str, driver: Driver) -> None:
        """This session can be resumed from now on, with this token and this access key."""
        self._entries[_hashed(token)] = _Entry(driver, key)
        self._of_keys[key] += 1

    def remove(self, token: str) -> None:
        """It cannot be any more."""
        entry = self._entries.pop(_hashed(token), None)
        if entry is not None:
            self._of_keys[entry.key] -= 1
            if not self._of_keys[entry.key]:
                del self._of_keys[entry.key]

    def find(self, token: str, key: str) -> Driver | None:
        """The session of this token. Under another key it is as unknown as one that never was."""
        entry = self._entries.get(_hashed(token))
        if entry is None or entry.key != key or not entry.driver.resumable:
            return None
        return entry.driver

    def knows(self, key: str) -> bool:
        """Whether a session of this access key could be resumed."""
        return key in self._of_keys


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
