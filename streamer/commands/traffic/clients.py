"""A client process of a load measurement: many sessions at the pace of speech in one event loop.

    python -m streamer.commands.traffic.clients

It reads orders from standard input, one JSON object a line, and writes what its sessions found to standard output. It
ends when its standard input does, so it is never left behind. Times are those of the monotonic clock, which all
processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from streamer.base.json_types import JsonObject
from streamer.commands.traffic.conversations import CONVERSATIONS, Conversation, Failed, Heard, Kind, Refused

BYTES_PER_S: Final = 32_000
FRAME: Final = 160  # samples, 10 ms
PAUSE_FRAMES: Final = 25  # so many quiet frames are a pause between words
QUIET: Final = 0.1  # the level of a quiet frame, as a part of that of loud ones
LOUD: Final = 0.9  # nine of ten frames are not louder than this level
CHUNK_S: Final = 0.1
CHUNK: Final = int(CHUNK_S * BYTES_PER_S)
TELL_S: Final = 0.25  # how often it says what was found
TICK_S: Final = 0.05  # how often it looks whether it keeps time
BESIDE: Final = 2  # so many places beside its own, a word is still the same
END_LIMIT_S: Final = 60.0  # for the last words of a session
# All sessions of a level stop together, and each wants its last words then. No delay of before may be due to that.
BEYOND_S: Final = 1.0


@dataclass(frozen=True)
class Recording:
    """Speech: a file with int16 samples, mono, 16 kHz."""

    name: str
    path: str

    def samples(self) -> bytes:
        """Return its samples."""
        return Path(self.path).read_bytes()


class Speech:
    """The samples of a recording, and the places where a session may begin: its beginning, and pauses."""

    def __init__(self, samples: bytes) -> None:
        self.samples = samples
        self._beginnings = [0, *pauses(samples)]

    def beginning_before(self, place: int) -> int:
        """Return the last beginning up to this place, both as a number of bytes."""
        return max(each for each in self._beginnings if each <= place)


def pauses(samples: bytes) -> list[int]:
    """Return the middle of each pause of int16 samples, as a number of bytes. At the beginning and the end is none."""
    frames = np.frombuffer(samples, "<i2")
    levels = np.abs(frames[: len(frames) // FRAME * FRAME].astype(np.float32)).reshape(-1, FRAME).mean(axis=1)
    if not len(levels):
        return []
    loud = np.flatnonzero(levels >= QUIET * np.quantile(levels, LOUD))
    gaps = np.flatnonzero(np.diff(loud) > PAUSE_FRAMES)
    return [int(loud[gap] + loud[gap + 1]) // 2 * FRAME * 2 for gap in gaps]


@dataclass(frozen=True)
class Plan:
    """What all levels have in common: the service, the format, the options of a session and the recordings."""

    url: str
    format: str
    options: Mapping[str, Any]
    recordings: Sequence[Recording]


@dataclass(frozen=True)
class Order:
    """A level for one process: which of all speakers it has, and when they begin, are measured and stop."""

    speakers: Sequence[int]
    all_speakers: int
    begin: float
    measure: float
    end: float

    def place_of(self, speaker: int) -> float:
        """Return which part of its first recording a speaker has said when the measurement begins.

        It is chance, as among people, and the same in each measurement. So the sessions end one by one, and sometimes
        several together.
        """
        return _chance(speaker) if self.all_speakers > 1 else 0.0

    def start_of(self, speaker: int, said_s: float) -> float:
        """Return when a speaker begins who has said so many seconds when the measurement begins.

        If the time before is too short for that, it begins at any moment of it.
        """
        ramp_s = self.measure - self.begin
        return self.measure - (said_s if said_s <= ramp_s else ramp_s * _chance(~speaker))

    def counts(self, spoken_at: float) -> bool:
        """Return whether what was spoken at this time is measured."""
        return self.measure <= spoken_at < self.end

    @property
    def stop(self) -> float:
        """When all speakers stop: some time after the measurement."""
        return self.end + BEYOND_S


def _chance(number: int) -> float:
    return random.Random(number).random()


@dataclass
class Tally:
    """What was found since the last message."""

    first: list[float] = field(default_factory=list)
    partial: list[float] = field(default_factory=list)
    word: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    # Recordings that were spoken to their end, the parts of them that were left out before, and what was heard.
    said: list[tuple[int, float, str]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    done: int = 0
    recovered: int = 0
    audio_s: float = 0.0

    def content(self) -> JsonObject:
        """Return what is not empty, for JSON. Delays are rounded to a tenth of a millisecond."""
        return {
            name: [round(each, 4) for each in value] if name in _DELAYS else value
            for name, value in vars(self).items()
            if value
        }


_DELAYS: Final = ("first", "partial", "word", "final", "last", "late")


class Speaker:
    """Speaks recordings one after the other, each in a session of its own."""

    def __init__(self, number: int, order: Order, plan: Plan, audio: Sequence[Speech], process: Process) -> None:
        self._number = number
        self._order = order
        self._plan = plan
        self._audio = audio
        self._process = process

    async def speak(self) -> None:
        """Speak until the level ends."""
        at = self._number
        audio = self._audio[at % len(self._audio)]
        place = int(self._order.place_of(at) * len(audio.samples))
        begin = audio.beginning_before(place)
        await _until(self._order.start_of(at, (place - begin) / BYTES_PER_S))
        while time.monotonic() < self._order.stop:
            try:
                await self._session(at % len(self._audio), begin)
            except Refused as refusal:
                self._process.tally.refused[refusal.code] += 1
                await _until(min(self._order.stop, time.monotonic() + refusal.retry_s))
                continue
            except Failed as failure:
                self._process.tally.failed[failure.code] += 1
                await _until(min(self._order.stop, time.monotonic() + TELL_S))
            at, begin = at + 1, 0

    async def _session(self, which: int, begin: int) -> None:
        conversation = CONVERSATIONS[self._plan.format](self._plan.url, self._plan.options)
        try:
            await conversation.open()
            self._process.tally.opened += 1
            self._process.live += 1
            try:
                await self._talk(conversation, which, begin)
            finally:
                self._process.live -= 1
        finally:
            with suppress(Exception):
                await conversation.close()

    async def _talk(self, conversation: Conversation, which: int, begin: int) -> None:
        order, audio = self._order, self._audio[which].samples
        began = time.monotonic()
        ear = Ear(began, order, self._process, from_beginning=begin == 0)
        hearing = asyncio.create_task(ear.listen(conversation))
        stopped = 0.0
        try:
            for number, at in enumerate(range(begin, len(audio), CHUNK), 1):
                # A chunk is complete when its last sample was spoken.
                chunk = audio[at : at + CHUNK]
                spoken = began + (number - 1) * CHUNK_S + len(chunk) / BYTES_PER_S
                await _until(min(spoken, order.stop))
                if spoken > order.stop or hearing.done():
                    break
                await conversation.send(chunk)
                stopped = spoken
                if order.counts(spoken):
                    self._process.tally.audio_s += len(chunk) / BYTES_PER_S
            else:
                ear.ended = stopped
            early = hearing.done()
            if not early:
                await conversation.stop()
            await asyncio.wait_for(asyncio.shield(hearing), END_LIMIT_S)
            if early:
                raise Failed("ended early")
        except asyncio.TimeoutError:
            raise Failed("overdue") from None
        except Failed:
            # The reason is in what it heard last, if it heard anything.
            if hearing.done() and (error := hearing.exception()) is not None:
                raise error from None
            raise
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
        self._process.tally.done += 1
        ear.leave()
        if ear.ended is not None:
            self._process.tally.said.append((which, round(begin / len(audio), 3), " ".join(ear.words)))


class Ear:
    """Hears one session, and measures when its words come."""

    def __init__(self, began: float, order: Order, process: Process, *, from_beginning: bool) -> None:
        self.words: list[str] = []
        self.ended: float | None = None  # when the last sample was spoken, if the audio was sent to its end
        self._began = began
        self._order = order
        self._process = process
        self._silent = from_beginning  # nothing was heard yet of audio that begins as the recording does
        self._shown: list[tuple[float, tuple[str, ...]]] = []  # the partials of the segment
        self._last: tuple[float, float] | None = None  # the last final: its arrival, and the end of its last word
        self._over = 0.0  # when the service said that all words are known

    async def listen(self, conversation: Conversation) -> None:
        """Listen until the session ends."""
        async for heard in conversation:
            now = time.monotonic()
            if heard.kind is Kind.RECOVERED:
                self._process.tally.recovered += 1
            elif heard.kind is Kind.END:
                self._over = now
            elif heard.words:
                self._take(heard, now)

    def leave(self) -> None:
        """Note when the last words were there: in the last final, or at the end if no final came after the audio."""
        after = self.ended is not None and self._last is not None and self._last[0] > self.ended
        if not after:
            self._note_final()
        if self.ended is not None and self._order.counts(self.ended):
            at = self._last[0] if after and self._last is not None else self._over
            if at > self.ended:
                self._process.tally.last.append(at - self.ended)

    def _take(self, heard: Heard, now: float) -> None:
        tally = self._process.tally
        if self._silent:
            self._silent = False
            if self._order.counts(self._began):
                tally.first.append(now - self._began)
        if heard.kind is Kind.PARTIAL:
            self._shown.append((now, heard.words))
            if heard.covered_s is not None and self._order.counts(self._began + heard.covered_s):
                tally.partial.append(now - self._began - heard.covered_s)
            return
        self.words += heard.words
        self._note_words(heard, now)
        self._shown = []
        self._note_final()
        self._last = (now, heard.ends_s[-1]) if heard.ends_s else (now, now - self._began)

    def _note_words(self, final: Heard, now: float) -> None:
        for place, (word, end_s) in enumerate(zip(final.words, final.ends_s, strict=False)):
            if not self._order.counts(self._began + end_s):
                continue
            # An earlier word may have been replaced by two since, or two by one.
            around = slice(max(0, place - BESIDE), place + BESIDE + 1)
            seen = (at for at, words in self._shown if word in words[around])
            self._process.tally.word.append(next(seen, now) - self._began - end_s)

    def _note_final(self) -> None:
        """Note the final before this one: the audio went on after it."""
        if self._last is not None:
            arrival, end_s = self._last
            if self._order.counts(self._began + end_s):
                self._process.tally.final.append(arrival - self._began - end_s)


class Process:
    """This process: its present level, and what it tells."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.live = 0

    async def run(self) -> None:
        """Take orders until there are no more."""
        orders: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._read_orders(orders)
        ticking = asyncio.create_task(self._tick())
        try:
            first = await orders.get()
            plan = Plan(**{**first, "recordings": [Recording(**each) for each in first["recordings"]]})
            audio = [Speech(each.samples()) for each in plan.recordings]
            self._tell({"ready": True})
            while True:
                await self._level(Order(**await orders.get()), plan, audio)
        except asyncio.CancelledError:
            return  # there are no more orders
        finally:
            ticking.cancel()

    async def _level(self, order: Order, plan: Plan, audio: Sequence[Speech]) -> None:
        speakers = [asyncio.create_task(Speaker(each, order, plan, audio, self).speak()) for each in order.speakers]
        telling = asyncio.create_task(self._keep_telling())
        try:
            await asyncio.gather(*speakers)
        finally:
            for each in (*speakers, telling):
                each.cancel()
            await asyncio.gather(*speakers, telling, return_exceptions=True)
        self._report()
        self._tell({"over": True})

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            self._report()

    async def _tick(self) -> None:
        """Note how late this process does what it wants to do at a certain time."""
        while True:
            due = time.monotonic() + TICK_S
            await _until(due)
            self.tally.late.append(time.monotonic() - due)

    def _report(self) -> None:
        tally, self.tally = self.tally, Tally()
        self._tell({"live": self.live, "cpu_s": round(time.process_time(), 3), "found": tally.content()})

    @staticmethod
    def _tell(message: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    @staticmethod
    def _read_orders(orders: asyncio.Queue[Mapping[str, Any]]) -> None:
        """Read in a thread, because standard input may be a pipe or a file, on any system. The end ends this task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def read() -> None:
            with suppress(RuntimeError):  # the loop has ended
                for line in sys.stdin:
                    loop.call_soon_threadsafe(orders.put_nowait, json.loads(line))
                loop.call_soon_threadsafe(task.cancel)

        threading.Thread(target=read, name="orders", daemon=True).start()


async def _until(when: float) -> None:
    await asyncio.sleep(max(0.0, when - time.monotonic()))


def main() -> None:
    """Run the process."""
    asyncio.run(Process().run())


if __name__ == "__main__":
    main()
