"""How many sessions the recogniser carries in real time, found by giving it more and more of them to compute.

Sequences send step after step, each as soon as its last one is answered. The time in which every one of them gets a
step computed, against the time in which a step is spoken, tells how much of the machine so many live sessions need:
the steps of those come at different moments, but batches grow as soon as the machine has no time left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.upstreams.pool import UpstreamPool
from streamer.bridge.upstreams.reservation import Reservation

STEP_S: Final = 0.32
STEP: Final = int(STEP_S * BYTES_PER_S)
# A step of all sessions may take so much of the time in which it is spoken. A step waits for the batch that is being
# computed and then for its own: with half of the time for each it is answered before the next one is spoken.
SHARE: Final = 0.5
# Each number of sessions is tried for so long, or until each had some steps; no other number is after the limit.
LEVEL_S: Final = 0.8
FEWEST_ROUNDS: Final = 3
LIMIT_S: Final = 12.0


@dataclass(frozen=True)
class Level:
    """What so many sequences at once were given."""

    sessions: int
    step_s: float  # the time in which each of them got a step
    answers_s: Sequence[float]  # how long each answer took, in ascending order

    @property
    def carried(self) -> bool:
        """Whether it leaves room enough."""
        return self.step_s <= SHARE * STEP_S

    def quantile(self, part: float) -> float:
        """The time within which this part of the answers came."""
        return self.answers_s[min(len(self.answers_s) - 1, int(part * len(self.answers_s)))]


@dataclass(frozen=True)
class Capacity:
    """What was found."""

    sessions: int
    levels: Sequence[Level]  # in ascending order

    @property
    def step_s(self) -> float:
        """The time in which each of so many got a step."""
        return next(level.step_s for level in self.levels if level.sessions == self.sessions)

    @property
    def limited(self) -> bool:
        """Whether more would have been carried, had there been slots for them."""
        return self.levels[-1].carried


class LoadTest:
    """Sequences that compute as fast as they can."""

    def __init__(self, pool: UpstreamPool, audio: bytes) -> None:
        """`audio` is speech, two steps of it or more: silence would be computed faster."""
        self._pool = pool
        self._audio = audio
        self._reservations: list[Reservation] = []

    async def level(self, sessions: int) -> Level:
        """Let so many compute for a while; LinkError."""
        fresh = range(len(self._reservations), sessions)
        self._reservations += [found for _ in fresh if (found := self._pool.reserve({})) is not None]
        await asyncio.gather(*(self._reservations[number].begin({}) for number in fresh))
        answers: list[float] = []
        began = time.monotonic()
        ends = await asyncio.gather(*(self._run(number, began, answers) for number in range(sessions)))
        return Level(sessions, sessions * (max(ends) - began) / len(answers), sorted(answers))

    def close(self) -> None:
        """End the sequences."""
        for reservation in self._reservations:
            reservation.release()

    async def _run(self, number: int, began: float, answers: list[float]) -> float:
        # Every sequence is at another offset in the audio.
        steps = len(self._audio) // STEP
        for done in count():
            now = time.monotonic()
            if done >= FEWEST_ROUNDS and now - began >= LEVEL_S:
                return now
            offset = (7 * number + done) % steps * STEP
            await self._reservations[number].send(self._audio[offset : offset + STEP])
            answers.append(time.monotonic() - now)
        raise AssertionError


async def measure(pool: UpstreamPool, audio: bytes, told: Callable[[Level], None] | None = None) -> Capacity:
    """What the recognisers carry, alone on their machines, within some ten seconds; LinkError if one fails."""
    most, began = pool.free, time.monotonic()
    load, levels = LoadTest(pool, audio), dict[int, Level]()

    async def attempt(sessions: int) -> Level:
        if sessions not in levels:
            level = await load.level(sessions)
            if not level.carried:
                # Whatever else the machine does for a moment only ever makes it slower.
                level = min(level, await load.level(sessions), key=lambda level: level.step_s)
            levels[sessions] = level
            if told is not None:
                told(levels[sessions])
        return levels[sessions]

    try:
        await load.level(1)  # what is used for the first time is slower
        good, sessions = 0, 1
        while (level := await attempt(sessions)).carried:
            good = sessions
            if sessions >= most or time.monotonic() - began > LIMIT_S:
                break
            sessions = min(2 * sessions, most)
        while not level.carried and level.sessions - good > max(1, good // 8) and time.monotonic() - began < LIMIT_S:
            # What a step of all takes grows nearly in proportion beyond the first few.
            guess = int(good + (level.sessions - good) * _fraction(levels.get(good), level))
            tried = await attempt(min(max(guess, good + 1), level.sessions - 1))
            if tried.carried:
                good = tried.sessions
            else:
                level = tried
    finally:
        load.close()
    # One that does not carry even a single session is still of use to one.
    return Capacity(max(1, good), [levels[number] for number in sorted(levels)])


def _fraction(good: Level | None, bad: Level) -> float:
    """Where between the two the share is reached."""
    before = 0.0 if good is None else good.step_s
    return (SHARE * STEP_S - before) / (bad.step_s - before)
