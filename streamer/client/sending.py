"""Sends audio from a source to a session, and keeps what the client may have to send again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from streamer.audio.audio_file import Int16Samples
from streamer.base.options import Endpoint
from streamer.client.connection import SessionError
from streamer.wire.native import Flush, Stop
from streamer.wire.options import Start

Audio = bytes | Int16Samples

AUDIO_OPTIONS: Final = ("encoding", "sample_rate", "channels", "multichannel", "live")
KEEPALIVE_S: Final = 5.0
PACED_MS: Final = 100
LONGEST_MS: Final = 1_000


class Sink(Protocol):
    """The receiver of audio: a session."""

    async def send(self, audio: Audio) -> None:
        """Take a piece of audio."""

    async def keepalive(self) -> None:
        """Note that there is no audio at present."""

    async def stop(self) -> None:
        """Note that there is no more audio."""


def describe_audio(options: Mapping[str, Any]) -> Start:
    """Return the options about the audio and the longest segment, from the options of an open session."""
    value: Any = options.get("endpoint")
    longest_ms = value.get("longest_ms") if isinstance(value, Mapping) else None
    endpoint = Endpoint() if longest_ms is None else Endpoint(longest_ms=longest_ms)
    return Start(**{name: options[name] for name in AUDIO_OPTIONS if name in options}, endpoint=endpoint)


def bytes_of(audio: Audio) -> bytes:
    """Return audio as the bytes to send. Raise TypeError if it is neither bytes nor an array of int16.

    A conversion would turn an array of fractions from -1 to 1 into silence.
    """
    if isinstance(audio, (bytes, bytearray, memoryview)):
        return bytes(audio)
    if not isinstance(audio, np.ndarray):
        raise TypeError(f"audio must be bytes or an array of int16, not {type(audio).__name__}")
    if audio.dtype.newbyteorder("=") != np.int16:
        raise TypeError(f"an array of audio must be int16, not {audio.dtype}: give samples of other kinds as bytes")
    return audio.astype("<i2", copy=False).tobytes()


async def send_all(sink: Sink, blocks: Iterable[Audio] | AsyncIterable[Audio], start: Start, paced: bool) -> None:
    """Send all blocks, and then `stop`, even if the source fails. `start` describes the audio."""
    measure, loop = _Measure(start.sample_rate, start.frame_bytes), asyncio.get_running_loop()
    began = active = loop.time()
    sent_s = 0.0
    try:
        async with aclosing(_read(blocks)) as reading:
            async for block in reading:
                audio = bytes_of(block)
                if not audio:
                    if loop.time() - active > KEEPALIVE_S:
                        await sink.keepalive()
                        active = loop.time()
                    continue
                for piece in measure.pieces(audio, PACED_MS if paced else LONGEST_MS):
                    sent_s += measure.seconds(piece)
                    if paced:
                        await asyncio.sleep(began + sent_s - loop.time())
                    await sink.send(piece)
                active = loop.time()
    except SessionError:
        return  # the events end with the same error, which has more details
    except Exception:
        with suppress(SessionError):
            await sink.stop()
        raise
    with suppress(SessionError):
        await sink.stop()


async def behind(
    blocks: Iterable[Audio] | AsyncIterable[Audio], start: Start, from_ms: float
) -> AsyncGenerator[Audio, None]:
    """Yield the audio from this time on. `start` describes the audio."""
    skip = int(from_ms * start.sample_rate // 1000) * start.frame_bytes
    async with aclosing(_read(blocks)) as reading:
        async for block in reading:
            audio = bytes_of(block)
            if len(audio) > skip:
                yield audio[skip:]
            skip = max(0, skip - len(audio))


@dataclass(frozen=True)
class _Measure:
    """Measures and divides audio in one format."""

    sample_rate: int
    frame_bytes: int

    def seconds(self, audio: bytes) -> float:
        return len(audio) / self.frame_bytes / self.sample_rate

    def pieces(self, audio: bytes, milliseconds: int) -> Iterator[bytes]:
        size = max(1, self.sample_rate * milliseconds // 1000) * self.frame_bytes
        for start in range(0, len(audio), size):
            yield audio[start : start + size]


async def _read(blocks: Iterable[Audio] | AsyncIterable[Audio]) -> AsyncGenerator[Audio, None]:
    """Yield the blocks. A thread reads them, because a slow disk or pipe must not block the event loop."""
    if isinstance(blocks, AsyncIterable):
        async for block in blocks:
            yield block
        return
    loop = asyncio.get_running_loop()
    iterator: Iterator[Audio] = iter(blocks)
    while True:
        reading = loop.run_in_executor(None, next, iterator, None)
        try:
            following = await asyncio.shield(reading)
        except asyncio.CancelledError:
            # The thread still reads from the file, and the caller closes the file as soon as this returns.
            with suppress(Exception):
                await reading
            raise
        if following is None:
            return
        yield following


# Keeps the audio, the flushes and the stop of a session as long as the client may have to send them again.

# A later final may contain audio that is older by this much than the audio which the service reports as recognised.
LAG_MS: Final = 10_000
# How much audio of a resumed live session may wait in the service, and how many bytes more in buffers on the way.
MOST_UNHEARD_MS: Final = 50_000
MOST_BUFFERED: Final = 16 * 1024 * 1024
# Bytes of audio in one message.
LARGEST_MESSAGE: Final = 32_768
# A sample of silence.
SILENCE: Final = {"pcm_s16le": b"\0\0", "pcm_f32le": b"\0\0\0\0", "mulaw": b"\xff", "alaw": b"\xd5"}

Entry = bytes | Flush | Stop


@dataclass(frozen=True)
class _KeptEntry:
    entry: Entry
    begin: int  # the offset at which this entry begins
    flushes: int  # how many flushes come before this entry


class KeptAudio:
    """The entries in order, and how many of them were sent over the present connection."""

    def __init__(self, start: Start, cuts_ms: Sequence[float] = (0.0,)) -> None:
        """`start`: the options of the session that describe its audio. `cuts_ms`: see `restart`."""
        self._frame_bytes = start.frame_bytes
        self._sample_rate = start.sample_rate
        self._silence = SILENCE[start.encoding]
        self._most_bytes = self.offset(start.endpoint.longest_ms + LAG_MS + MOST_UNHEARD_MS) + MOST_BUFFERED
        self._entries: deque[_KeptEntry] = deque()
        self._next = 0  # the index of the entry to send next
        self._skip = 0  # bytes at the beginning of this entry that are not sent
        self._dropped = 0  # how many of the first flushes were dropped, answered or not
        self._flushes = 0
        self._answered = 0  # how many flushes were answered
        # The audio that is kept begins and ends at `_begin` and `_end`. `_origin` and `_cuts`:
        # where the service's present session began, and from where on it gets the audio of each channel, not silence.
        self._cuts = tuple(map(self.offset, cuts_ms))
        self._origin = self._begin = self._end = min(self._cuts)
        self._origin_flushes = 0

    @property
    def flushes(self) -> int:
        """The number of flushes that the client has asked for."""
        return self._flushes

    @property
    def given_ms(self) -> float:
        """The time at which the audio of the client ends."""
        return self.milliseconds(self._end)

    @property
    def sent_ms(self) -> float:
        """The time up to which audio was sent over the present connection."""
        if self._next == len(self._entries):
            return self.given_ms
        return self.milliseconds(self._entries[self._next].begin + self._skip)

    @property
    def kept_ms(self) -> float:
        """The length of the audio that is kept."""
        return self.milliseconds(self._end - self._begin)

    def milliseconds(self, offset: int) -> float:
        """Return the time of an offset."""
        return offset * 1000 / (self._frame_bytes * self._sample_rate)

    def offset(self, milliseconds: float) -> int:
        """Return the offset of the sample at this time."""
        return int(milliseconds * self._sample_rate // 1000) * self._frame_bytes

    def add(self, data: bytes) -> None:
        """Add audio."""
        for start in range(0, len(data), LARGEST_MESSAGE):
            piece = data[start : start + LARGEST_MESSAGE]
            self._entries.append(_KeptEntry(piece, self._end, self._flushes))
            self._end += len(piece)
        # This happens only if a service does not report what it has recognised. It cannot ask for the dropped audio.
        while self._end - self._begin > self._most_bytes and self._next > 0:
            self._drop_first()

    def flush(self) -> None:
        """Add a flush at the present end of the audio."""
        self._entries.append(_KeptEntry(Flush(), self._end, self._flushes))
        self._flushes += 1

    def stop(self) -> None:
        """Add the end of the session."""
        self._entries.append(_KeptEntry(Stop(), self._end, self._flushes))

    def next(self) -> Entry | None:
        """Return the next entry to send, or None if everything was sent."""
        if self._next == len(self._entries):
            return None
        kept = self._entries[self._next]
        if not isinstance(kept.entry, bytes):
            return kept.entry
        return self._with_silence(kept.entry[self._skip :], kept.begin + self._skip)

    def sent(self) -> None:
        """Note that the next entry was sent over the present connection."""
        self._next += 1
        self._skip = 0

    def let_go(self, milliseconds: float) -> None:
        """Note that no later final contains audio from before this time."""
        offset = min(self.offset(milliseconds), self._end)
        # A flush without an answer keeps everything after it. Its answer comes soon.
        while self._next > 0 and isinstance(first := self._entries[0].entry, bytes):
            if self._begin + len(first) > offset:
                return
            self._drop_first()

    def answered(self, flushes: int) -> None:
        """Note that this many flushes have been answered."""
        if flushes > self._answered:
            self._answered = flushes
            answered = [number for number, kept in enumerate(self._entries) if _is_flush_before(kept, flushes)]
            self._next -= sum(number < self._next for number in answered)
            self._entries = deque(kept for kept in self._entries if not _is_flush_before(kept, flushes))

    def resume(self, from_sample: int, flushes: int) -> bool:
        """Continue over another connection. The service has these numbers of samples and flushes.

        Return False if something that comes after them is not kept any more.
        """
        return self._rewind(self._origin + from_sample * self._frame_bytes, self._origin_flushes + flushes)

    def restart(self, cuts_ms: Sequence[float]) -> float | None:
        """Continue in another session of the service, which gets each channel from its cut on.

        The session begins at the earliest cut. Return this time, or None if its audio is not kept any more. A channel
        with a later cut gets silence before it, because its words up to there are final.
        """
        cuts = tuple(map(self.offset, cuts_ms))
        if not self._rewind(min(cuts), self._answered):
            return None
        self._origin, self._origin_flushes, self._cuts = min(cuts), self._answered, cuts
        return self.milliseconds(self._origin)

    def _rewind(self, offset: int, flushes: int) -> bool:
        """Send everything after this offset and these flushes again. Return False if a part of it was dropped."""
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

    def _with_silence(self, data: bytes, begin: int) -> bytes:
        if begin >= max(self._cuts):
            return data
        result = bytearray(data)
        for channel, cut in enumerate(self._cuts):
            end = max(0, min(len(data), cut - begin))
            for byte, value in enumerate(self._silence, channel * len(self._silence)):
                first = min((byte - begin) % self._frame_bytes, end)
                result[first : end : self._frame_bytes] = bytes([value]) * len(range(first, end, self._frame_bytes))
        return bytes(result)

    def _drop_first(self) -> None:
        first = self._entries.popleft()
        self._next -= 1
        if isinstance(first.entry, bytes):
            self._begin += len(first.entry)
        elif isinstance(first.entry, Flush):
            self._dropped = first.flushes + 1


def _is_flush_before(kept: _KeptEntry, flushes: int) -> bool:
    return isinstance(kept.entry, Flush) and kept.flushes < flushes
