"""Several microphones that record at the same time, as one: a meeting with a headset and what the machine plays.

Each device has a clock of its own, begins at a moment of its own, and may lose audio. So each is held to the time at
which its audio arrives: what is missing is filled with silence, and what is too much is left out. A device that only
delivers late loses nothing, because what counts is the smallest delay of some seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from types import TracebackType
from typing import Final

import numpy as np

from streamer.audio.decoder import SAMPLE_RATE, Int16Samples
from streamer.audio.microphone import Microphone, MicrophoneError, Recorder

# The delay of a device varies with how busy the machine is. Its smallest one of this time does not.
WATCHED_S: Final = 10.0
# Nobody notices this much between two channels. A clock that is wrong by 1 in 20 000 needs more than an hour for it.
MOST_APART_S: Final = 0.3
# So much of a device waits here for the others. All else waits in its own queue.
_MOST_WAITING: Final = SAMPLE_RATE


class JoinedMicrophones(Recorder):
    """Records several devices between entry and exit of the context. Made and used in an event loop."""

    def __init__(self, parts: Sequence[Microphone], *, separate: bool) -> None:
        """Mix the devices. With `separate`, chunks are [samples, devices]. `parts` have one channel each."""
        self.parts = parts
        self.resting = False
        self._separate = separate
        self._tracks = [Track() for _ in parts]
        self._arrived = asyncio.Event()
        self._began_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._open = ExitStack()

    def __enter__(self) -> JoinedMicrophones:
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def paused(self) -> bool:
        """Whether audio is dropped at present."""
        return self.parts[0].paused

    @paused.setter
    def paused(self, value: bool) -> None:
        for part in self.parts:
            part.paused = value

    def finish(self) -> None:
        """End the recording in a moment. `chunks` still yields all audio until then."""
        for part in self.parts:
            part.finish()

    async def chunks(self) -> AsyncGenerator[Int16Samples, None]:
        """Yield what all devices have recorded, as it comes. If one is lost, the others end as well.

        Raises MicrophoneError at the end if a device was lost.
        """
        collecting = [
            asyncio.create_task(self._collect(part, track))
            for part, track in zip(self.parts, self._tracks, strict=True)
        ]
        try:
            while not all(track.ended for track in self._tracks):
                await self._arrived.wait()
                self._arrived.clear()
                if all(part.resting for part in self.parts):
                    rest = self._take(max(track.waiting for track in self._tracks))
                    self._began_at, self.resting = None, True
                    yield rest
                else:
                    self.resting = False
                    # One that has ended gives the others no reason to wait.
                    size = max if any(track.ended for track in self._tracks) else min
                    yield self._take(size(track.waiting for track in self._tracks))
            yield self._take(max(track.waiting for track in self._tracks))
            for each in collecting:
                await each
        finally:
            for each in collecting:
                each.cancel()
            await asyncio.gather(*collecting, return_exceptions=True)

    async def _collect(self, part: Microphone, track: Track) -> None:
        try:
            async with aclosing(part.chunks()) as chunks:
                async for chunk in chunks:
                    if len(chunk):
                        self._place(chunk, track)
                    self._arrived.set()
                    await track.room()
        except MicrophoneError:
            self.finish()
            raise
        finally:
            track.ended = True
            self._arrived.set()

    def _place(self, chunk: Int16Samples, track: Track) -> None:
        now = self._loop.time()
        if self._began_at is None:
            self._began_at = now - len(chunk) / SAMPLE_RATE
            for each in self._tracks:
                each.begin()
        track.add(chunk, round((now - self._began_at) * SAMPLE_RATE), now)

    def _take(self, size: int) -> Int16Samples:
        together = np.stack([track.take(size) for track in self._tracks], axis=1)
        return together if self._separate else together.mean(axis=1).astype(np.int16)


class Track:
    """What one device has recorded and the others have not yet."""

    def __init__(self) -> None:
        self.ended = False
        self.waiting = 0  # samples
        self._blocks: deque[Int16Samples] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self.begin()

    def begin(self) -> None:
        """Begin a new time, after a pause."""
        self._placed: int | None = None  # samples, from the beginning of the recording of all devices
        self._delays: deque[tuple[float, int]] = deque()

    def add(self, chunk: Int16Samples, due: int, now: float) -> None:
        """Take audio that has arrived `now`, when `due` samples should have been recorded."""
        if self._placed is None:  # the device began later than others
            self._placed = 0
            self._fill(due - len(chunk))
        delay = due - self._placed - len(chunk)
        while self._delays and self._delays[0][0] <= now - WATCHED_S:
            self._delays.popleft()
        self._delays.append((now, delay))
        smallest = min(delay for _, delay in self._delays)
        watched = now - self._delays[0][0] > WATCHED_S / 2
        if abs(smallest) > MOST_APART_S * SAMPLE_RATE and (watched or smallest < 0):
            self._fill(smallest)
            chunk = chunk[max(0, -smallest) :]
            self._delays.clear()
        self._put(chunk)

    async def room(self) -> None:
        """Wait until further audio can be taken."""
        await self._room.wait()

    def take(self, size: int) -> Int16Samples:
        """Return this much audio. Silence stands for what has not been recorded."""
        taken = np.zeros(size, np.int16)
        at = 0
        while self._blocks and at < size:
            block = self._blocks.popleft()
            if len(block) > size - at:
                self._blocks.appendleft(block[size - at :])
                block = block[: size - at]
            taken[at : at + len(block)] = block
            at += len(block)
        self.waiting -= at
        if self.waiting <= _MOST_WAITING:
            self._room.set()
        return taken

    def _fill(self, size: int) -> None:
        if size > 0:
            self._put(np.zeros(size, np.int16))

    def _put(self, block: Int16Samples) -> None:
        assert self._placed is not None
        self._placed += len(block)
        self.waiting += len(block)
        self._blocks.append(block)
        if self.waiting > _MOST_WAITING:
            self._room.clear()
