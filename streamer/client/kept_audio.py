"""What a client has sent, as far as the service may ask for it again: sound, and where flushes and the end stand in it.

Pure. What the service says it has heard is forgotten.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from streamer.wire.options import Start

# The service holds up to 20 s of sound and one message, and the buffers on the way some megabytes. Who is asked to keep
# more is not spoken to by a service that tells what it heard.
MOST_KEPT_S: Final = 60
MOST_KEPT_BYTES: Final = 16 * 1024 * 1024
# Times are rounded: so much more is kept than what was heard.
_MARGIN_MS: Final = 100


@dataclass(frozen=True)
class Flush:
    """Where everything so far was to become final; they count from 0."""

    number: int


@dataclass(frozen=True)
class Stop:
    """The end."""


Entry = bytes | Flush | Stop


class KeptAudio:
    """Entries in order, and how far the present connection has got with them."""

    def __init__(self, audio: Start) -> None:
        """`audio` has the encoding, rate and channels of what is sent."""
        self.whole = True  # whether everything that may be asked for is here
        self._frame_bytes = audio.frame_bytes
        self._bytes_per_s = audio.bytes_per_s
        self._entries: deque[Entry] = deque()
        self._next = 0  # of the entries, the one to be sent next
        self._begin = 0  # bytes of sound before the first entry
        self._end = 0
        self._flushes = 0

    def add(self, data: bytes) -> None:
        """More sound."""
        self._entries.append(data)
        self._end += len(data)
        if self._end - self._begin > MOST_KEPT_S * self._bytes_per_s + MOST_KEPT_BYTES:
            self.whole = False

    def flush(self) -> None:
        """A flush is asked for here."""
        self._entries.append(Flush(self._flushes))
        self._flushes += 1

    def stop(self) -> None:
        """This was all."""
        self._entries.append(Stop())

    def next(self) -> Entry | None:
        """What is to be sent next; None if everything was sent."""
        return self._entries[self._next] if self._next < len(self._entries) else None

    def sent(self) -> None:
        """The next entry has been sent over the present connection."""
        self._next += 1
        if not self.whole:
            self._forget_first()

    def heard(self, audio_ms: int) -> None:
        """The service has this sound."""
        known = (audio_ms - _MARGIN_MS) * self._bytes_per_s // 1000
        while self._next > 0 and not isinstance(first := self._entries[0], Stop):
            # A flush is known to be there with sound behind it.
            if self._begin + (len(first) if isinstance(first, bytes) else 1) > known:
                return
            self._forget_first()

    def rewind(self, from_sample: int, flushes: int) -> bool:
        """The service has got so many samples and flushes: what follows is to be sent; False if it is not here."""
        place = from_sample * self._frame_bytes
        if not self.whole or not self._begin <= place <= self._end:
            return False
        while self._entries:
            first = self._entries[0]
            if isinstance(first, Stop) or (isinstance(first, Flush) and first.number >= flushes):
                break
            if isinstance(first, bytes) and self._begin + len(first) > place:
                skipped = place - self._begin
                self._entries[0] = first[skipped:]
                self._begin = place
                break
            self._next = 1
            self._forget_first()
        self._next = 0
        return True

    def _forget_first(self) -> None:
        first = self._entries.popleft()
        self._next -= 1
        if isinstance(first, bytes):
            self._begin += len(first)
