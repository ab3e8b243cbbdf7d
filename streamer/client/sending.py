"""A source of sound on its way to a session: in pieces, paced if wanted, read beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from streamer.audio.audio_file import Int16Samples
from streamer.client.connection import SessionError
from streamer.wire.options import Start

Sound = bytes | Int16Samples

KEEPALIVE_S: Final = 5.0
PACED_MS: Final = 100
LONGEST_MS: Final = 1_000


class Sink(Protocol):
    """What sound is sent to: a session."""

    async def send(self, sound: Sound) -> None:
        """Takes a piece of sound."""

    async def keepalive(self) -> None:
        """There is no sound at present."""

    async def stop(self) -> None:
        """There is no more."""


def declared(options: Mapping[str, Any]) -> Start:
    """What sound is to be like."""
    return Start(**{name: options[name] for name in ("encoding", "sample_rate", "channels") if name in options})


async def send_all(sink: Sink, blocks: Iterable[Sound] | AsyncIterable[Sound], audio: Start, paced: bool) -> None:
    """Sends a whole source and `stop`, also when the source fails; `audio` is what it is declared to be."""
    measure, loop = _Measure(audio.sample_rate, audio.frame_bytes), asyncio.get_running_loop()
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
    """How long sound is: an array has a row for each sample, bytes have a frame."""

    sample_rate: int
    frame_bytes: int

    def seconds(self, sound: Sound) -> float:
        frames = len(sound) / self.frame_bytes if isinstance(sound, bytes) else len(sound)
        return frames / self.sample_rate

    def pieces(self, block: Sound, milliseconds: int) -> Iterator[Sound]:
        frames = max(1, self.sample_rate * milliseconds // 1000)
        size = frames * self.frame_bytes if isinstance(block, bytes) else frames
        for start in range(0, len(block), size):
            yield block[start : start + size]


async def _read(blocks: Iterable[Sound] | AsyncIterable[Sound]) -> AsyncGenerator[Sound, None]:
    """The blocks, read beside the event loop: a slow disk or a pipe must hold up nobody else."""
    if isinstance(blocks, AsyncIterable):
        async for block in blocks:
            yield block
        return
    loop = asyncio.get_running_loop()
    iterator: Iterator[Sound] = iter(blocks)
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
