"""Measures whether clients with costly requests delay other sessions: alternates periods with and without them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from string import ascii_lowercase
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from workshop.load.live_sessions import BYTES_PER_S, HEADS, LagWatch, Period, open_sessions, period

WARM_UP_S = 3.0
GATHER_S = 3.2
ANSWER_LIMIT_S = 40.0
CLOSE_LIMIT_S = 2.0
PAUSE_S = 0.02  # so that the work of the attackers on the same machine does not distort the measurement
# The bound on the additional delay: one step.
MOST_LATER_S = 0.32

LARGE = bytes(1024 * 1024)
FRAME_S = 0.32
LONGEST_MS = 60_000  # of a segment
TAKEOVERS = 20
FLUSHES = 200


@dataclass
class Observations:
    """The observations of one run."""

    alone: list[Period] = field(default_factory=list)
    beside: dict[str, list[Period]] = field(default_factory=dict)  # by attack
    answers: dict[str, Counter[str]] = field(default_factory=dict)  # the answers to the attempts of the attackers
    ended: Counter[str] = field(default_factory=Counter)  # how the sessions of the other clients ended
    read_by: Counter[str] = field(default_factory=Counter)  # what read their finals, if they had second passes

    def later_s(self, attack: str, part: float) -> float:
        """Return how much later this quantile of the partials was during the attack."""
        return _together(self.beside[attack]).quantile(part) - _together(self.alone).quantile(part)


async def run(
    url: str,
    audio: bytes,
    number: int,
    attackers: int,
    seconds: float,
    rounds: int,
    attacks: Sequence[str],
    *,
    second_pass: bool = False,
) -> Observations:
    """Alternate periods without an attack and with each attack. All have the same sessions.

    `second_pass`: whether the sessions have one.
    """
    result, lag = Observations(), LagWatch(url)
    sessions = await open_sessions(url, audio, number, GATHER_S, second_pass=second_pass)
    watching = asyncio.create_task(lag.watch())
    try:
        await asyncio.sleep(WARM_UP_S)
        for _ in range(rounds):
            for attack in ("", *attacks):
                periods = result.beside.setdefault(attack, []) if attack else result.alone
                answers = result.answers.setdefault(attack, Counter()) if attack else Counter[str]()
                crowd = range(attackers if attack else 0)
                crowd_of = [Attacker(url, attack, place, audio, answers) for place in crowd]
                trying = [asyncio.create_task(each.attack()) for each in crowd_of]
                since = time.monotonic()
                await asyncio.sleep(seconds)
                periods.append(period(sessions, lag, since, time.monotonic()))
                for task in trying:
                    task.cancel()
                await asyncio.gather(*trying, return_exceptions=True)
    finally:
        watching.cancel()
        await asyncio.gather(*(session.end() for session in sessions))
    for session in sessions:
        result.ended[session.ended] += 1
        result.read_by += session.read_by
    return result


def report(result: Observations) -> str:
    """Return a table with a line for each kind of period, and how much later the partials were."""
    lines = [HEADS, _together(result.alone).line("alone")]
    lines += [_together(periods).line(f"beside {attack}") for attack, periods in result.beside.items()]
    lines.append("")
    for attack, answers in result.answers.items():
        later = ", ".join(f"{name} {result.later_s(attack, part):+.3f} s" for name, part in _PARTS)
        codes = ", ".join(f"{code} {number}" for code, number in answers.most_common())
        lines.append(f"later beside {attack}: {later}. Their attempts: {codes}.")
    ends = ", ".join(f"{code} {number}" for code, number in result.ended.items())
    lines.append(f"The sessions ended: {ends}.")
    if result.read_by:
        lines.append(f"Their finals: {', '.join(f'{name} {number}' for name, number in result.read_by.items())}.")
    return "\n".join(lines)


def failures(result: Observations) -> Iterator[str]:
    """Yield a sentence for each bound that was exceeded."""
    cut = sum(number for code, number in result.ended.items() if code != "done")
    if cut:
        yield f"{cut} of the sessions ended too early"
    for attack in result.beside:
        if not result.answers[attack]:
            yield f"no attempt at {attack} was answered"
        # The median does not count: partials are early or late in a step, and the median may be either kind.
        for name, part in _PARTS[1:]:
            if not result.later_s(attack, part) <= MOST_LATER_S:
                yield f"partials came {result.later_s(attack, part):.2f} s later beside {attack} ({name})"


class Attacker:
    """A client that attacks again and again. It has an address of its own, unless the attack is that of one caller."""

    def __init__(self, url: str, attack: str, place: int, audio: bytes, answers: Counter[str]) -> None:
        """`audio`: speech. `answers`: counts what the service says."""
        self.audio, self.answers, self.dice = audio, answers, random.Random(place)
        self._url, self._attack = url, ATTACKS[attack]
        number = 0 if attack in OF_ONE_CALLER else place
        self._headers = {"X-Forwarded-For": f"10.66.{number // 250}.{number % 250 + 1}"}
        self._opened: list[ClientConnection] = []

    async def attack(self) -> None:
        """Attack until cancelled."""
        while True:
            try:
                with suppress(WebSocketException, OSError, asyncio.TimeoutError):
                    await self._attack(self)
            finally:
                # Closing ends the work of this turn, so that it does not affect the next one.
                await asyncio.gather(*(websocket.close() for websocket in self._opened), return_exceptions=True)
                self._opened.clear()
            await asyncio.sleep(PAUSE_S)

    async def open_one(self, **options: Any) -> tuple[ClientConnection, dict[str, Any]]:
        """Open a session, and return its first event."""
        # Without pings, because the service does not read a client that is far ahead.
        websocket = await connect(
            self._url,
            compression=None,
            additional_headers=self._headers,
            close_timeout=CLOSE_LIMIT_S,
            ping_interval=None,
        )
        self._opened.append(websocket)
        await websocket.send(json.dumps({"type": "start", **options}))
        event: dict[str, Any] = json.loads(await asyncio.wait_for(websocket.recv(), ANSWER_LIMIT_S))
        self.answers[event.get("code", event["type"])] += 1
        return websocket, event


async def _hotwords(attacker: Attacker) -> None:
    """Start a session with as many hotwords as are allowed, new ones each time."""
    words = ["".join(attacker.dice.choices(ascii_lowercase, k=9)) for _ in range(1200)]
    websocket, _ = await attacker.open_one(hotwords=[" ".join(words[start : start + 6]) for start in range(0, 1200, 6)])
    await websocket.close()


async def _large_frames(attacker: Attacker) -> None:
    """Send the largest frame, with more audio than a live session may be ahead."""
    websocket, _ = await attacker.open_one(
        encoding="mulaw", sample_rate=attacker.dice.choice((8000, 8001, 11_025)), live=True
    )
    await websocket.send(LARGE)
    async for _ in websocket:
        pass


async def _flushes(attacker: Attacker) -> None:
    """Flush after every sample, with all options that add content to the end of a segment."""
    websocket, _ready = await attacker.open_one(alternatives=10, written=True, partial_words=True)
    for _number in range(FLUSHES):
        await websocket.send(bytes(2))
        await websocket.send('{"type":"flush"}')
    await websocket.send('{"type":"stop"}')
    async for _message in websocket:
        pass


async def _takeovers(attacker: Attacker) -> None:
    """Take a session over again and again, without answering the closes."""
    websocket, ready = await attacker.open_one()
    silent = []
    for _number in range(TAKEOVERS):
        websocket.transport.pause_reading()
        silent.append(websocket)
        websocket, _ready = await attacker.open_one(resume={"token": ready["token"], "after": 1})
    for each in silent:
        each.transport.abort()
    await websocket.close()


async def _live_passes(attacker: Attacker) -> None:
    """Send live speech in segments of the greatest length, each of which is read again."""
    await _passes(attacker, live=True)


async def _passes_ahead(attacker: Attacker) -> None:
    """Send the same as fast as the service takes it."""
    await _passes(attacker, live=False)


async def _passes(attacker: Attacker, *, live: bool) -> None:
    endpoint = {"silence": False, "longest_ms": LONGEST_MS}
    websocket, _ = await attacker.open_one(live=live, second_pass=True, endpoint=endpoint)

    async def speak() -> None:
        began, size = time.monotonic(), int(FRAME_S * BYTES_PER_S)
        for number in count(1):
            if live:
                await asyncio.sleep(began + number * FRAME_S - time.monotonic())
            at = number * size % (len(attacker.audio) - size)
            await websocket.send(attacker.audio[at : at + size])

    speaking = asyncio.create_task(speak())
    try:
        async for message in websocket:
            event = json.loads(message)
            if event["type"] in ("final", "error"):
                attacker.answers[event.get("code") or event.get("read_by", "final")] += 1
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)


ATTACKS: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    "hotwords": _hotwords,
    "large frames": _large_frames,
    "flushes": _flushes,
    "takeovers": _takeovers,
    "live second passes": _live_passes,
    "second passes ahead": _passes_ahead,
}
OF_ONE_CALLER = ("live second passes", "second passes ahead")
_PARTS = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def _together(periods: Sequence[Period]) -> Period:
    delays = [late for each in periods for late in each.delays_s]
    return Period(periods[0].sessions, delays, max(each.lag_s for each in periods))
