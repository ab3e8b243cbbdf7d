"""Limits how many hotwords one caller may use in a minute: a leaky bucket, which its sessions fill.

Hotwords are pronounced and compiled before a session can begin. The time for that grows with their characters. A
session without hotwords costs nothing here, and is never refused.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MINUTE_S = 60.0
# The recogniser remembers pronunciations for each caller. Compiling the same list again takes this part of the time.
_REPEAT_COST = 0.25
_LISTS_PER_CALLER = 8  # that the recogniser remembers
MOST_BUCKETS = 4096  # for the callers that used hotwords most recently


@dataclass(frozen=True)
class Preparation:
    """What has to be prepared for one session."""

    characters: int
    streams: int
    list_id: bytes

    @classmethod
    def of(cls, hotwords: Sequence[str], streams: int) -> Preparation:
        """Return the preparation of a session with these hotwords in each of its streams."""
        digest = hashlib.blake2b("\n".join(hotwords).encode("utf-8", "replace"), digest_size=16).digest()
        return cls(sum(map(len, hotwords)), streams, digest)


@dataclass
class _Bucket:
    level: float = 0.0
    level_at: float = 0.0  # when it had this level
    lists: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LISTS_PER_CALLER))


class PreparationBudget:
    """The buckets of all callers of one kind: of keys, or of addresses."""

    def __init__(self, per_minute: int | None) -> None:
        """`per_minute`: characters, and also the size of a bucket. None means no limit."""
        self.per_minute = per_minute
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()  # the most recently used bucket is last

    def wait_s(self, name: str, preparation: Preparation, now: float) -> int:
        """Return after how many seconds the caller may have this preparation; 0 means now."""
        if self.per_minute is None or not preparation.characters or name not in self._buckets:
            return 0
        bucket = self._buckets[name]
        level, cost = self._level(bucket, now), self._cost(bucket, preparation)
        # A preparation that is larger than the whole bucket is allowed when the bucket is empty.
        excess = min(level, level + cost - self.per_minute)
        return max(0, math.ceil(excess * MINUTE_S / self.per_minute))

    def charge(self, name: str, preparation: Preparation, now: float) -> None:
        """Count a preparation that is about to happen."""
        if self.per_minute is None or not preparation.characters:
            return
        bucket = self._buckets.setdefault(name, _Bucket())
        self._buckets.move_to_end(name)
        bucket.level = self._level(bucket, now) + self._cost(bucket, preparation)
        bucket.level_at = now
        if preparation.list_id not in bucket.lists:
            bucket.lists.append(preparation.list_id)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)

    def _level(self, bucket: _Bucket, now: float) -> float:
        return max(0.0, bucket.level - (now - bucket.level_at) * (self.per_minute or 0) / MINUTE_S)

    def _cost(self, bucket: _Bucket, preparation: Preparation) -> float:
        first = _REPEAT_COST if preparation.list_id in bucket.lists else 1.0
        return preparation.characters * (first + _REPEAT_COST * (preparation.streams - 1))
