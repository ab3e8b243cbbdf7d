"""The audio of one stream that waits for the model: any pieces in, whole steps out.

Pure, like the stream that owns it. It is bounded by its marks: whoever fills it looks at `full`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from streamer.audio.sample_converter import SAMPLE_RATE

SAMPLE_BYTES = 2
BYTES_PER_S = SAMPLE_RATE * SAMPLE_BYTES

# Above the high mark a client is read no further, below the low mark it is read again.
HIGH_MARK = 10 * BYTES_PER_S
LOW_MARK = 5 * BYTES_PER_S
# Each flush is remembered until the model gets to it: the same marks, in flushes.
MOST_FLUSHES = 16
FEW_FLUSHES = 8
# Audio of one portion when the model is behind. More would save little and hold up the batch it travels in.
PORTION = 1280 * BYTES_PER_S // 1000


@dataclass(frozen=True)
class Portion:
    """Audio for one request: whole steps, or with `flush` or `last` everything up to that point."""

    pcm: bytes
    flush: bool = False
    last: bool = False


class Backlog:
    """Audio received and not yet handed to the model, with the positions at which the client asked for a flush."""

    def __init__(self) -> None:
        self._received = 0  # bytes since the start of the session; the waiting audio ends here
        self._waiting = bytearray()
        self._flushes: deque[int] = deque()  # counted in received bytes
        self._full = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def received(self) -> int:
        """Bytes that were ever added."""
        return self._received

    @property
    def full(self) -> bool:
        """Whether nothing should be added for now."""
        return self._full

    def exceeds(self, mark: int) -> bool:
        """Whether more waits than `mark` bytes, or than flushes are remembered."""
        return self._exceeds(mark, MOST_FLUSHES)

    def add(self, data: bytes) -> None:
        """Whole samples, any number of them."""
        self._waiting += data
        self._received += len(data)
        self._measure()

    def mark_flush(self) -> None:
        """What was received up to here is to become final."""
        self._flushes.append(self._received)
        self._measure()

    def take(self, step_ms: int, *, last: bool) -> Portion | None:
        """The next portion, or None while there is less than a step; `last` wants the rest as well."""
        flush = bool(self._flushes)
        due = self._flushes[0] - (self._received - len(self._waiting)) if flush else len(self._waiting)
        rest = (flush or last) and due <= PORTION
        if not rest:
            step = step_ms * BYTES_PER_S // 1000
            due = min(due, PORTION)
            due -= due % step
            if due == 0:
                return None
        portion = Portion(bytes(self._waiting[:due]), flush=flush and rest, last=rest and not flush)
        del self._waiting[:due]
        if portion.flush:
            self._flushes.popleft()
        self._measure()
        return portion

    def put_back(self, pcm: bytes, *, flush: bool) -> None:
        """Audio that was taken has to go to the model once more, before what waits; with `flush` also that."""
        if flush:
            self._flushes.appendleft(self._received - len(self._waiting))
        self._waiting[:0] = pcm
        self._measure()

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self._waiting.clear()
        self._flushes.clear()
        self._full = False

    def _measure(self) -> None:
        # Where it stops and where it goes on lie apart: else a client would be stopped for each step again.
        self._full = self._exceeds(LOW_MARK, FEW_FLUSHES) if self._full else self._exceeds(HIGH_MARK, MOST_FLUSHES)

    def _exceeds(self, size: int, flushes: int) -> bool:
        return len(self._waiting) > size or len(self._flushes) >= flushes
