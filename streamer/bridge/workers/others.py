"""What a worker knows of the others that serve the same port: what they count, and which of them has a session.

`ALONE` is that of a service in one process: there are no others, and nothing is asked or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Final, NamedTuple, Protocol


class Counted(Enum):
    """What workers count together."""

    SLOTS = "slots"  # by public name of the model
    SESSIONS = "sessions"
    OF_KEY = "of key"  # sessions by the name of the key
    OF_NETWORK = "of network"  # sessions by the network of the address
    LISTENERS = "listeners"  # of sessions that are shared
    UPLOADS = "uploads"  # recordings that are being decoded
    STARTS = "starts"  # of worker processes


class BucketState(NamedTuple):
    """How much of a budget for hotwords is used, and since when (time.monotonic(), which all workers share)."""

    level: float
    level_at: float
    lists: Sequence[bytes]


class KeptKey(NamedTuple):
    """A key for a short time as it is kept, by the digest of its secret."""

    holder: str
    holder_digest: bytes
    expires_at: float
    content: str


class Others(Protocol):
    """The other workers. Nothing here waits for one of them."""

    @property
    def salt(self) -> bytes:
        """The secret of the pseudonyms of callers, the same at each worker; empty if there are no others."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Let no other worker count inside this block. It must not wait for anything."""

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return how many of these the others have. If that is not known, they have their part of `most`."""

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Tell the others how many of these this worker has."""

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return how much of a budget all workers have used; None if nothing."""

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Tell the others how much of a budget is used."""

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Make a key for a short time valid at each worker."""

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Return the key for a short time with this digest."""

    def keys(self, now: float) -> list[tuple[str, float]]:
        """Return the holders and the ends of all keys for a short time, and forget those that have ended."""


class Alone:
    """The others of a service in one process."""

    salt = b""

    def __init__(self) -> None:
        self._keys: dict[bytes, KeptKey] = {}

    def exclusive(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def count(self, kind: Counted, name: str, most: int) -> int:
        """Return 0."""
        return 0

    def note(self, kind: Counted, name: str, number: int) -> None:
        """Do nothing."""

    def bucket(self, kind: str, name: str) -> BucketState | None:
        """Return None, because the budget is kept where it is used."""
        return None

    def keep_bucket(self, kind: str, name: str, state: BucketState) -> None:
        """Do nothing."""

    def add_key(self, digest: bytes, key: KeptKey) -> None:
        """Keep it in memory."""
        self._keys[digest] = key

    def find_key(self, digest: bytes) -> KeptKey | None:
        """Look for it in memory."""
        return self._keys.get(digest)

    def keys(self, now: float) -> list[tuple[str, float]]:
        """List those in memory."""
        self._keys = {digest: key for digest, key in self._keys.items() if now < key.expires_at}
        return [(key.holder, key.expires_at) for key in self._keys.values()]


# Names of sessions and of links that listeners have begin with the number of the worker that made them.

_BEHIND: Final = "-"


def mark(number: int, name: str) -> str:
    """Return this name with the number of its worker; 0 for the only one, which needs none."""
    return f"{number}{_BEHIND}{name}" if number else name


def worker_of(name: str) -> int:
    """Return the number of the worker that marked this name; 0 if none did."""
    number = name.partition(_BEHIND)[0]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 4 else 0
