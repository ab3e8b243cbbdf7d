"""The audio of one stream that waits for the model. It takes audio of any length, and returns whole steps or pieces.

Pure, like the stream that owns it. Callers keep it bounded: they check `full` before they add audio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from streamer.audio.decoder import SAMPLE_RATE
from streamer.bridge.states import States

SAMPLE_BYTES = 2
BYTES_PER_S = SAMPLE_RATE * SAMPLE_BYTES

# Above the high mark the client is not read; below the low mark it is read again.
HIGH_MARK = 10 * BYTES_PER_S
LOW_MARK = 5 * BYTES_PER_S
# The same marks for flushes that the model has not reached, because each of them is stored.
MOST_FLUSHES = 16
FEW_FLUSHES = 8
# The most audio of one portion when the model is behind. More would save little, and delay the batch it is in.
PORTION = 1280 * BYTES_PER_S // 1000


class Level(Enum):
    """Whether much audio waits. The two marks differ, so that reading does not stop and start for every step."""

    LOW = "low"  # more may be added
    HIGH = "high"  # above the high mark, or not yet below the low mark again


TRANSITIONS: Mapping[Level, tuple[Level, ...]] = {Level.LOW: (Level.HIGH,), Level.HIGH: (Level.LOW,)}


@dataclass(frozen=True)
class Grid:
    """Places where a portion may end: at multiples of `ms`, counted from `past` bytes before the waiting audio.

    If `past` is negative, the first multiple is that many bytes behind the first step of the waiting audio.
    """

    ms: int
    past: int = 0

    def most(self, limit: int) -> int:
        """Return the most bytes, up to this limit, that end at such a place; 0 if there is none."""
        most = (limit + self._passed) // self._size * self._size - self._passed
        return most if most >= self.least else 0

    @property
    def least(self) -> int:
        """The bytes up to the first such place."""
        return self._size - self._passed

    @property
    def _size(self) -> int:
        return self.ms * BYTES_PER_S // 1000

    @property
    def _passed(self) -> int:
        """The bytes since the last such place. A portion has room for each step, and perhaps not for more."""
        return self.past if self.past < 0 and self._size - self.past <= PORTION else self.past % self._size


@dataclass(frozen=True)
class Place:
    """Another place where a portion may end: after this many bytes."""

    size: int

    def most(self, limit: int) -> int:
        """Return the number of bytes that end at this place; 0 if it is beyond the limit, or was passed already."""
        return self.size if 0 < self.size <= limit else 0

    @property
    def least(self) -> int:
        """The bytes up to this place; 0 if it was passed already."""
        return max(0, self.size)


@dataclass(frozen=True)
class Portion:
    """Audio for one request. `flush`: the client asked for a flush at its end. `last`: it is the end of the audio."""

    pcm: bytes
    flush: bool = False
    last: bool = False


class Backlog:
    """Audio that was received and not yet sent to the model, with the positions where the client asked for a flush."""

    def __init__(self) -> None:
        self._received = 0  # bytes since the start of the session, up to the end of the waiting audio
        self._waiting = bytearray()
        self._flushes: deque[int] = deque()  # counted in received bytes
        self._level = States("backlog", Level.LOW, TRANSITIONS)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def received(self) -> int:
        """The number of bytes added so far."""
        return self._received

    @property
    def full(self) -> bool:
        """Whether no audio should be added for now."""
        return self._level.now is Level.HIGH

    def lacks(self, size: int) -> int:
        """Return how many of so many bytes do not wait yet; 0 before a flush, for which all audio goes."""
        return 0 if self._flushes else max(0, size - len(self._waiting))

    def exceeds(self, mark: int, flushes: int = 0) -> bool:
        """Return whether more than `mark` bytes are waiting, or too many flushes, besides these."""
        return self._exceeds(mark, MOST_FLUSHES + flushes)

    def add(self, data: bytes) -> None:
        """Add any number of whole samples."""
        self._waiting += data
        self._received += len(data)
        self._measure()

    def mark_flush(self) -> None:
        """Note that the client wants everything received so far to become final."""
        self._flushes.append(self._received)
        self._measure()

    def take(self, *ends: Grid | Place, last: bool) -> Portion | None:
        """Return the next portion; None if too little waits to reach one of `ends`. `last`: no more audio will come."""
        flush = bool(self._flushes)
        due = self._flushes[0] - (self._received - len(self._waiting)) if flush else len(self._waiting)
        rest = (flush or last) and due <= PORTION
        if not rest:
            due = max(end.most(min(due, PORTION)) for end in ends)
            if due == 0:
                return None
        portion = Portion(bytes(self._waiting[:due]), flush=flush and rest, last=rest and not flush)
        del self._waiting[:due]
        if portion.flush:
            self._flushes.popleft()
        self._measure()
        return portion

    def put_back(self, pcm: bytes, *, flush: bool) -> None:
        """Put audio in front of what waits, to send it again. `flush`: a flush follows it."""
        if flush:
            self._flushes.appendleft(self._received - len(self._waiting))
        self._waiting[:0] = pcm
        self._measure()

    def clear(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()
        self._flushes.clear()
        self._measure()

    def _measure(self) -> None:
        high = self._exceeds(LOW_MARK, FEW_FLUSHES) if self.full else self._exceeds(HIGH_MARK, MOST_FLUSHES)
        if high is not self.full:
            self._level.become(Level.HIGH if high else Level.LOW)

    def _exceeds(self, size: int, flushes: int) -> bool:
        return len(self._waiting) > size or len(self._flushes) >= flushes
