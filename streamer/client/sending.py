"""Sends audio from a source to a session, in pieces and without blocking. It can keep the pace of speech."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from streamer.audio.audio_file import Int16Samples
from streamer.client.connection import SessionError
from streamer.wire.options import Endpoint, Start

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
