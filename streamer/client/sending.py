"""A source of audio on its way to a session: in pieces, paced if wanted, read beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from streamer.audio.audio_file import Int16Samples
from streamer.client.connection import SessionError
from streamer.wire.options import Endpoint, Start

Audio = bytes | Int16Samples

OF_AUDIO: Final = ("encoding", "sample_rate", "channels", "multichannel", "live")
KEEPALIVE_S: Final = 5.0
PACED_MS: Final = 100
LONGEST_MS: Final = 1_000


class Sink(Protocol):
    """What audio is sent to: a session."""

    async def send(self, audio: Audio) -> None:
        """Takes a piece of audio."""

    async def keepalive(self) -> None:
        """There is no audio at present."""

    async def stop(self) -> None:
        """There is no more."""


def declared(options: Mapping[str, Any]) -> Start:
    """What the options of a session that was accepted say of its audio, and of the length of its segments."""
    given: Any = options.get("endpoint")
    longest_ms = given.get("longest_ms") if isinstance(given, Mapping) else None
    endpoint = Endpoint() if longest_ms is None else Endpoint(longest_ms=longest_ms)
    return Start(**{name: options[name] for name in OF_AUDIO if name in options}, endpoint=endpoint)


async def send_all(sink: Sink, blocks: Iterable[Audio] | AsyncIterable[Audio], start: Start, paced: bool) -> None:
    """Sends a whole source and `stop`, also when the source fails; `start` says what its audio is like."""
    measure, loop = _Measure(start.sample_rate, start.frame_bytes), asyncio.get_running_loop()
    began = active = loop.time()
    sent_s = 0.0
    try:
        async with aclosing(_read(blocks)) as reading:
            async for block in reading:
                if len(block) == 0:
                    if loop.time() - active > KEEPALIVE_S:
                        await sink.keepalive()
                        active = loop.time()
                    continue
                for piece in measure.pieces(block, PACED_MS if paced else LONGEST_MS):
                    sent_s += measure.seconds(piece)
                    if paced:
                        await asyncio.sleep(began + sent_s - loop.time())
                    await sink.send(piece)
                active = loop.time()
    except SessionError:
        return  # the events end with the same trouble, and tell it better
    except Exception:
        with suppress(SessionError):
            await sink.stop()
        raise
    with suppress(SessionError):
        await sink.stop()


@dataclass(frozen=True)
class _Measure:
    """How long audio is: an array has a row for each sample, bytes have a frame."""

    sample_rate: int
    frame_bytes: int

    def seconds(self, audio: Audio) -> float:
        frames = len(audio) / self.frame_bytes if isinstance(audio, bytes) else len(audio)
        return frames / self.sample_rate

    def pieces(self, block: Audio, milliseconds: int) -> Iterator[Audio]:
        frames = max(1, self.sample_rate * milliseconds // 1000)
        size = frames * self.frame_bytes if isinstance(block, bytes) else frames
        for start in range(0, len(block), size):
            yield block[start : start + size]


async def _read(blocks: Iterable[Audio] | AsyncIterable[Audio]) -> AsyncGenerator[Audio, None]:
    """The blocks, read beside the event loop: a slow disk or a pipe must hold up nobody else."""
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
            # The thread is still in the file, which is closed as soon as we return.
            with suppress(Exception):
                await reading
            raise
        if following is None:
            return
        yield following
