"""Where sessions are found by their tokens: who comes back goes on where the connection was lost.

A token is a secret, so it is kept as a hash: how long it takes to find one tells nothing about those that there are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.bridge.driver import SessionDriver

# Sessions whose client is away, at a time. More than that end with their connection: each keeps its messages.
MOST_PARKED = 256


@dataclass(frozen=True)
class _Place:
    driver: SessionDriver
    key: str  # the name of the access key that it was opened with


class Resumption:
    """The sessions of one service that somebody may resume."""

    def __init__(self) -> None:
        self._places: dict[bytes, _Place] = {}
        self._of_keys: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether no more clients may be away."""
        return sum(place.driver.parked for place in self._places.values()) >= MOST_PARKED

    def add(self, token: str, key: str, driver: SessionDriver) -> None:
        """This session can be resumed from now on, with this token and this access key."""
        self._places[_hashed(token)] = _Place(driver, key)
        self._of_keys[key] += 1

    def remove(self, token: str) -> None:
        """It cannot be any more."""
        place = self._places.pop(_hashed(token), None)
        if place is not None:
            self._of_keys[place.key] -= 1
            if not self._of_keys[place.key]:
                del self._of_keys[place.key]

    def find(self, token: str, key: str) -> SessionDriver | None:
        """The session of this token. Under another key it is as unknown as one that never was."""
        place = self._places.get(_hashed(token))
        if place is None or place.key != key or not place.driver.resumable:
            return None
        return place.driver

    def knows(self, key: str) -> bool:
        """Whether a session of this access key could be resumed."""
        return key in self._of_keys


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
