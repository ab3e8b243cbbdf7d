"""Measures how many sessions the recogniser can serve in real time, by giving it more and more of them.

Each sequence sends its next step as soon as the last one is answered. The time in which every sequence gets one step
computed, divided by the duration of a step, is the part of the machine that so many live sessions need. Live steps come
at different moments, but batches grow as soon as the machine has no time left.
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
# A step of all sessions may take this part of a step's duration. A step waits for the present batch, and then for its
# own. If each takes half of the duration, the step is answered before the next one has been spoken.
SHARE: Final = 0.5
# Each number of sessions is tested for at least LEVEL_S, and until each session had FEWEST_ROUNDS steps. After LIMIT_S
# no other number is tested.
LEVEL_S: Final = 0.8
FEWEST_ROUNDS: Final = 3
LIMIT_S: Final = 12.0


@dataclass(frozen=True)
class Level:
    """The measurement of one number of sessions."""

    sessions: int
    step_s: float  # the time in which each of them got a step
    answers_s: Sequence[float]  # how long each answer took, in ascending order

    @property
    def carried(self) -> bool:
        """Whether the machine can serve so many sessions."""
        return self.step_s <= SHARE * STEP_S

    def quantile(self, part: float) -> float:
        """Return the time within which this part of the answers came."""
        return self.answers_s[min(len(self.answers_s) - 1, int(part * len(self.answers_s)))]


@dataclass(frozen=True)
class Capacity:
    """The result of the measurement."""

    sessions: int
    levels: Sequence[Level]  # in ascending order

    @property
    def step_s(self) -> float:
        """The time in which each of so many sessions got a step."""
        return next(level.step_s for level in self.levels if level.sessions == self.sessions)

    @property
    def limited(self) -> bool:
        """Whether the number of slots was the limit, not the machine."""
        return self.levels[-1].carried


class LoadTest:
    """Sequences that send audio as fast as it is computed."""

    def __init__(self, pool: UpstreamPool, audio: bytes) -> None:
        """`audio` must be speech of at least two steps, because silence is computed faster."""
        self._pool = pool
        self._audio = audio
        self._reservations: list[Reservation] = []

    async def level(self, sessions: int) -> Level:
        """Measure so many sequences for a while. LinkError if one fails."""
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
        # Every sequence starts at a different place in the audio.
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
    """Measure, within some ten seconds and without other sessions, how many are possible. LinkError if one fails."""
    most, began = pool.free, time.monotonic()
    load, levels = LoadTest(pool, audio), dict[int, Level]()

    async def attempt(sessions: int) -> Level:
        if sessions not in levels:
            level = await load.level(sessions)
            if not level.carried:
                # Other work on the machine can only make a measurement slower, so the faster of two is better.
                level = min(level, await load.level(sessions), key=lambda level: level.step_s)
            levels[sessions] = level
            if told is not None:
                told(levels[sessions])
        return levels[sessions]

    try:
        await load.level(1)  # a warm-up, because the first use is slower
        good, sessions = 0, 1
        while (level := await attempt(sessions)).carried:
            good = sessions
            if sessions >= most or time.monotonic() - began > LIMIT_S:
                break
            sessions = min(2 * sessions, most)
        while not level.carried and level.sessions - good > max(1, good // 8) and time.monotonic() - began < LIMIT_S:
            # Beyond the first few sessions, the time of a step grows nearly linearly.
            guess = int(good + (level.sessions - good) * _fraction(levels.get(good), level))
            tried = await attempt(min(max(guess, good + 1), level.sessions - 1))
            if tried.carried:
                good = tried.sessions
            else:
                level = tried
    finally:
        load.close()
    # Even a machine that is too slow for one live session gets one.
    return Capacity(max(1, good), [levels[number] for number in sorted(levels)])


def _fraction(good: Level | None, bad: Level) -> float:
    """Estimate where between the two levels SHARE is reached."""
    before = 0.0 if good is None else good.step_s
    return (SHARE * STEP_S - before) / (bad.step_s - before)
