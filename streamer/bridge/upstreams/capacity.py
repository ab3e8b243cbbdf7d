"""Guesses how many sessions the recogniser can serve in real time, by giving it more and more of them.

Each sequence sends its next step as soon as the last one is answered. The time in which one step of every sequence is
computed, divided by the duration of a step, is the part of the machine that this number of live sessions needs. Live
steps come at different moments, but batches grow as soon as the machine has no time left.

Any session may ask for second passes. So their time is measured as well, with segments that end with and without one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from streamer.base.limits import READER
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.upstreams.pool import Reservation, UpstreamPool

STEP_S: Final = 0.32
STEP: Final = int(STEP_S * BYTES_PER_S)
# The first guess: computing one step of every session may take this part of a step's duration. A step waits for the
# present batch, and then for its own. So if each batch takes half of the duration, the step is answered before the next
# one has been spoken.
SHARE: Final = 0.5
# The same with the second passes of all sessions, for which no step waits. The rest of the time is for other work.
WHOLE_SHARE: Final = 0.85
# The number of segments that end together, if there are as many sessions: enough for several instances.
SEGMENTS: Final = 8
SEGMENT_S: Final = 6.0  # at most: much shorter than the longest segment, so that the model does not end one itself
# Each number of sessions is tested for at least LEVEL_S, and until each session had FEWEST_ROUNDS steps. After LIMIT_S
# no other number is tested.
LEVEL_S: Final = 0.8
FEWEST_ROUNDS: Final = 3
LIMIT_S: Final = 12.0


@dataclass(frozen=True)
class Level:
    """The measurement of one number of sessions."""

    sessions: int
    step_s: float  # the time in which one step of each session was computed

    @property
    def carried(self) -> bool:
        """Whether the machine can serve this number of sessions."""
        return self.step_s <= SHARE * STEP_S


@dataclass(frozen=True)
class Guess:
    """How many sessions there may be, from the time that steps and second passes take without a pause."""

    sessions: int
    levels: Sequence[Level]  # in ascending order
    second_pass_s: float = 0.0  # the time of second passes for a step of one session

    @property
    def step_s(self) -> float:
        """The time for one step of each session: as measured, or estimated from the levels below and above."""
        below = next((each for each in reversed(self.levels) if each.sessions <= self.sessions), self.levels[0])
        above = next((each for each in self.levels if each.sessions >= self.sessions), below)
        part = (self.sessions - below.sessions) / max(1, above.sessions - below.sessions)
        return below.step_s + part * (above.step_s - below.step_s)

    @property
    def whole_s(self) -> float:
        """The same with the second passes of all sessions."""
        return self.step_s + self.sessions * self.second_pass_s


class LoadTest:
    """Sequences that send audio as fast as it is computed."""

    def __init__(self, pool: UpstreamPool, audio: bytes) -> None:
        """`audio` must be speech of at least two steps, because silence is computed faster."""
        self._pool = pool
        self._audio = audio
        self._reservations: list[Reservation] = []

    async def level(self, sessions: int) -> Level:
        """Measure this number of sequences for a while. Raise LinkError if one fails."""
        new = range(len(self._reservations), sessions)
        self._reservations += _reserve(self._pool, {}, len(new))
        await asyncio.gather(*(self._reservations[number].begin({}) for number in new))
        began = time.monotonic()
        results = await asyncio.gather(*(self._run(number, began) for number in range(sessions)))
        return Level(
            sessions, sessions * (max(end for end, _ in results) - began) / sum(answered for _, answered in results)
        )

    def close(self) -> None:
        """End the sequences."""
        for reservation in self._reservations:
            reservation.release()

    async def _run(self, number: int, began: float) -> tuple[float, int]:
        """Send steps for a while. Returns when the last one was answered, and how many there were."""
        # Every sequence starts at a different place in the audio.
        steps = len(self._audio) // STEP
        for steps_sent in count():
            now = time.monotonic()
            if steps_sent >= FEWEST_ROUNDS and now - began >= LEVEL_S:
                return now, steps_sent
            offset = (7 * number + steps_sent) % steps * STEP
            await self._reservations[number].send(self._audio[offset : offset + STEP])
        raise AssertionError


async def second_pass_s(pool: UpstreamPool, audio: bytes, segments: int) -> float:
    """Return the time of second passes for a step of one session, measured with this number of segments of the audio.

    Raise LinkError if a sequence fails.
    """
    audio = audio[: int(SEGMENT_S * BYTES_PER_S)]

    async def end_s(second_pass: bool) -> float:
        # Without a reader, the recogniser does the second pass itself.
        options = {"second_pass": second_pass, READER: second_pass, "endpoint": "off"}
        reservations = _reserve(pool, options, segments)
        try:
            await asyncio.gather(*(reservation.begin({}) for reservation in reservations))
            for start in range(0, len(audio), STEP):
                portion = audio[start : start + STEP]
                await asyncio.gather(*(reservation.send(portion) for reservation in reservations))
            began = time.monotonic()
            await asyncio.gather(*(reservation.send(flush=True) for reservation in reservations))
            return (time.monotonic() - began) / max(1, len(reservations))
        finally:
            for reservation in reservations:
                reservation.release()

    await end_s(False)  # not measured, because other sequences may still be ending
    without_s, with_s = await end_s(False), await end_s(True)
    return max(0.0, with_s - without_s) * STEP / len(audio)


async def guess(pool: UpstreamPool, audio: bytes) -> int:
    """Guess in some ten seconds how many sessions are possible. Raise LinkError if one fails."""
    most, began = pool.free, time.monotonic()
    load, levels = LoadTest(pool, audio), dict[int, Level]()

    async def attempt(sessions: int) -> Level:
        if sessions not in levels:
            level = await load.level(sessions)
            if not level.carried:
                # Other work on the machine can only make a measurement slower, so the faster of two is better.
                level = min(level, await load.level(sessions), key=lambda level: level.step_s)
            levels[sessions] = level
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
            between = await attempt(min(max(guess, good + 1), level.sessions - 1))
            if between.carried:
                good = between.sessions
            else:
                level = between
    finally:
        load.close()
    good = max(1, good)
    pass_s = await second_pass_s(pool, audio, min(good, SEGMENTS))
    ordered = [levels[number] for number in sorted(levels)]
    candidates = (Guess(sessions, ordered, pass_s) for sessions in range(good, 0, -1))
    return next(each.sessions for each in candidates if each.whole_s <= WHOLE_SHARE * STEP_S or each.sessions == 1)


def _reserve(pool: UpstreamPool, options: Mapping[str, Any], number: int) -> list[Reservation]:
    """Reserve this number of slots, or all that there are."""
    reservations = [pool.reserve(options) for _ in range(number)]
    return [reservation for reservation in reservations if reservation is not None]


def _fraction(good: Level | None, bad: Level) -> float:
    """Estimate which fraction of the way from the good level to the bad one reaches SHARE."""
    before = 0.0 if good is None else good.step_s
    return (SHARE * STEP_S - before) / (bad.step_s - before)
