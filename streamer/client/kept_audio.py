"""What a client has given to a session, as far as it may be needed again: audio, and where flushes and the end stand.

Pure. Audio is kept until no further final can have any of it: until then another session of the service may have to
hear it again. docs/reference/protocol.md says what a client has to keep. The JavaScript client has the same in
streamer/web/kept-audio.js. Places are bytes of audio since the start of the session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamer.wire.native import Flush, Stop
from streamer.wire.options import Start

# How far the recogniser may be behind what the service says it has heard.
LAG_MS: Final = 10_000
# So much audio of a live session may wait in the service once it was resumed; and so much lies in the buffers before.
MOST_UNHEARD_MS: Final = 50_000
MOST_BUFFERED: Final = 16 * 1024 * 1024
# Bytes of audio in one message.
LARGEST_MESSAGE: Final = 32_768
# A sample of silence.
SILENCE: Final = {"pcm_s16le": b"\0\0", "pcm_f32le": b"\0\0\0\0", "mulaw": b"\xff", "alaw": b"\xd5"}

Entry = bytes | Flush | Stop


@dataclass(frozen=True)
class _Kept:
    entry: Entry
    begin: int  # bytes of audio before it
    flushes: int  # before it


class KeptAudio:
    """Entries in order, and how far the present connection has got with them."""

    def __init__(self, start: Start) -> None:
        """`start`: the options of the session, as far as they are about its audio."""
        self._frame_bytes = start.frame_bytes
        self._sample_rate = start.sample_rate
        self._silence = SILENCE[start.encoding]
        self._most = self.offset(start.endpoint.longest_ms + LAG_MS + MOST_UNHEARD_MS) + MOST_BUFFERED
        self._entries: deque[_Kept] = deque()
        self._next = 0  # of the entries, the one to be sent next
        self._skip = 0  # bytes of it that are not to be sent
        self._begin = 0  # audio before this is not kept,
        self._dropped = 0  # nor are so many flushes that may not have been answered
        self._end = 0
        self._flushes = 0
        self._answered = 0  # of the flushes
        # Where the service's present session began, and where its channels begin to hear what was said.
        self._origin = self._origin_flushes = 0
        self._cuts: tuple[int, ...] = (0,)

    @property
    def flushes(self) -> int:
        """How many flushes were asked for."""
        return self._flushes

    @property
    def given_ms(self) -> float:
        """Where the audio ends."""
        return self.milliseconds(self._end)

    @property
    def sent_ms(self) -> float:
        """Where that ends which was sent over the present connection."""
        if self._next == len(self._entries):
            return self.given_ms
        return self.milliseconds(self._entries[self._next].begin + self._skip)

    @property
    def kept_ms(self) -> float:
        """How much audio is kept."""
        return self.milliseconds(self._end - self._begin)

    def milliseconds(self, offset: int) -> float:
        """The time at an offset."""
        return offset * 1000 / (self._frame_bytes * self._sample_rate)

    def offset(self, milliseconds: float) -> int:
        """Where the sample of this time begins."""
        return int(milliseconds * self._sample_rate // 1000) * self._frame_bytes

    def add(self, data: bytes) -> None:
        """More audio."""
        for start in range(0, len(data), LARGEST_MESSAGE):
            piece = data[start : start + LARGEST_MESSAGE]
            self._entries.append(_Kept(piece, self._end, self._flushes))
            self._end += len(piece)
        # Only a service that does not say what it has heard gets here. What is dropped it cannot ask for again.
        while self._end - self._begin > self._most and self._next > 0:
            self._drop_first()

    def flush(self) -> None:
        """A flush is asked for here."""
        self._entries.append(_Kept(Flush(), self._end, self._flushes))
        self._flushes += 1

    def stop(self) -> None:
        """This was all."""
        self._entries.append(_Kept(Stop(), self._end, self._flushes))

    def next(self) -> Entry | None:
        """What is to be sent next; None if everything was sent."""
        if self._next == len(self._entries):
            return None
        kept = self._entries[self._next]
        if not isinstance(kept.entry, bytes):
            return kept.entry
        return self._silenced(kept.entry[self._skip :], kept.begin + self._skip)

    def sent(self) -> None:
        """The next entry has been sent over the present connection."""
        self._next += 1
        self._skip = 0

    def let_go(self, milliseconds: float) -> None:
        """No further final has anything of what was before this."""
        offset = min(self.offset(milliseconds), self._end)
        # An unanswered flush keeps what is behind it; it is answered soon.
        while self._next > 0 and isinstance(first := self._entries[0].entry, bytes):
            if self._begin + len(first) > offset:
                return
            self._drop_first()

    def answered(self, flushes: int) -> None:
        """So many flushes have been answered."""
        if flushes > self._answered:
            self._answered = flushes
            done = [number for number, kept in enumerate(self._entries) if _is_flush_before(kept, flushes)]
            self._next -= sum(number < self._next for number in done)
            self._entries = deque(kept for kept in self._entries if not _is_flush_before(kept, flushes))

    def resume(self, from_sample: int, flushes: int) -> bool:
        """Another connection: the service's session has so many samples and flushes; False if what follows is gone."""
        return self._rewind(self._origin + from_sample * self._frame_bytes, self._origin_flushes + flushes)

    def restart(self, cuts_ms: Sequence[float]) -> float | None:
        """Another session of the service: it hears each channel from its cut on; None if that is gone.

        It begins at the earliest cut, which is returned. A channel with a later one has silence until there: what was
        said in it is final already.
        """
        cuts = tuple(map(self.offset, cuts_ms))
        if not self._rewind(min(cuts), self._answered):
            return None
        self._origin, self._origin_flushes, self._cuts = min(cuts), self._answered, cuts
        return self.milliseconds(self._origin)

    def _rewind(self, offset: int, flushes: int) -> bool:
        """What follows this offset and so many flushes is to be sent; False if it is not here."""
        if not self._begin <= offset <= self._end or flushes < self._dropped:
            return False
        self._next = self._skip = 0
        for kept in self._entries:
            if isinstance(kept.entry, bytes):
                if kept.begin + len(kept.entry) > offset:
                    self._skip = max(0, offset - kept.begin)
                    break
            elif kept.begin >= offset and not _is_flush_before(kept, flushes):
                break
            self._next += 1
        return True

    def _silenced(self, data: bytes, begin: int) -> bytes:
        if begin >= max(self._cuts):
            return data
        changed = bytearray(data)
        for channel, cut in enumerate(self._cuts):
            end = max(0, min(len(data), cut - begin))
            for byte, value in enumerate(self._silence, channel * len(self._silence)):
                first = min((byte - begin) % self._frame_bytes, end)
                changed[first : end : self._frame_bytes] = bytes([value]) * len(range(first, end, self._frame_bytes))
        return bytes(changed)

    def _drop_first(self) -> None:
        first = self._entries.popleft()
        self._next -= 1
        if isinstance(first.entry, bytes):
            self._begin += len(first.entry)
        elif isinstance(first.entry, Flush):
            self._dropped = first.flushes + 1


def _is_flush_before(kept: _Kept, flushes: int) -> bool:
    return isinstance(kept.entry, Flush) and kept.flushes < flushes
