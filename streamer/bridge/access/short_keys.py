"""Keys for a short time, which a caller with a lasting key makes: for a page or an app that must not have that one.

A short key admits as the lasting one that made it, with its name, limits and quotas, and ends with it: when that one
is removed from the file or expires. It makes no others. Short keys are kept in memory, so they are valid at this
service only, and end with it. Its workers share them.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from streamer.base.codes import ErrorCode
from streamer.bridge.access.keys import digest_of
from streamer.bridge.access.quotas import Denied
from streamer.bridge.workers.others import Alone, KeptKey, Others

# Clients of OpenAI know a short key by this prefix.
PREFIX: Final = "ek_"
MOST_OF_ONE: Final = 1024  # of one holder at a time
MOST: Final = 4096  # at a time; each has at most the content that a request for it may have


@dataclass(frozen=True)
class Holder:
    """Who makes short keys: a lasting key, or an address if the service has no keys."""

    name: str  # of the key, or of the address
    digest: bytes = b""  # of the lasting key; empty if the service has no keys
    expires_at: float = math.inf  # of that key, in seconds since 1970


@dataclass(frozen=True)
class ShortKey:
    """A key with its end, and what it was made for."""

    holder: Holder
    expires_at: float  # in seconds since 1970
    content: str  # the settings of a session, as text of the format that made it


class ShortKeys:
    """The short keys of a service. Expired ones are forgotten when others are made."""

    def __init__(self, clock: Callable[[], float] = time.time, others: Others | None = None) -> None:
        """`others`: the other workers, at which the keys are valid, too."""
        self._clock = clock
        self._others = others or Alone()

    def make(self, holder: Holder, seconds: int, content: str = "") -> tuple[str, int]:
        """Return a new secret, and when it expires. Raise Denied if there are too many."""
        now = self._clock()
        ends = self._others.keys(now)
        own = [end for end in ends if end[0] == holder.name]
        for who, keys, most in (("This caller", own, MOST_OF_ONE), ("The service", ends, MOST)):
            if len(keys) >= most:
                wait = math.ceil(min(expires_at for _, expires_at in keys) - now)
                message = f"{who} has {most} keys for a short time, the maximum; try again in {wait} s."
                raise Denied(ErrorCode.BUSY, message, wait)
        secret = PREFIX + secrets.token_urlsafe(32)
        expires_at = int(min(int(now) + seconds, holder.expires_at))
        self._others.add_key(digest_of(secret), KeptKey(holder.name, holder.digest, expires_at, content))
        return secret, expires_at

    def find(self, secret: str) -> ShortKey | None:
        """Return the key with this secret; None if there is none, or if it has expired."""
        kept = self._others.find_key(digest_of(secret)) if secret.startswith(PREFIX) else None
        if kept is None or self._clock() >= kept.expires_at:
            return None
        return ShortKey(Holder(kept.holder, kept.holder_digest), kept.expires_at, kept.content)
