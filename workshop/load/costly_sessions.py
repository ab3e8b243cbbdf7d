"""Measures whether clients with costly requests delay other sessions: alternates periods with and without them."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from string import ascii_lowercase
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

WARM_UP_S = 3.0
GATHER_S = 3.2
ANSWER_LIMIT_S = 40.0
CLOSE_LIMIT_S = 2.0
PAUSE_S = 0.02  # so that the work of the attackers on the same machine does not distort the measurement
# The bound on the additional delay: one step.
MOST_LATER_S = 0.32

LARGE = bytes(1024 * 1024)
ATTACK_FRAME_S = 0.32
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
        began, size = time.monotonic(), int(ATTACK_FRAME_S * BYTES_PER_S)
        for number in count(1):
            if live:
                await asyncio.sleep(began + number * ATTACK_FRAME_S - time.monotonic())
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


# Live sessions at the pace of speech beside an attack: how late their partials are. `streamer load` measures more.

BYTES_PER_S = 32_000
# Half a step, so that the length of a frame does not hide when a step is complete.
FRAME_S = 0.16
FRAME = int(FRAME_S * BYTES_PER_S)
READY_LIMIT_S = 30.0
END_LIMIT_S = 60.0
POLL_S = 0.5
LAG = re.compile(r'^streamer_lag_max_seconds\{pace="real_time"\} (\S+)$', re.MULTILINE)


@dataclass
class LiveSession:
    """Sends the same audio again and again at the pace of speech, until `end` is called."""

    second_pass: bool = False
    delays: list[tuple[float, float]] = field(default_factory=list)  # when a partial arrived, and how late it was
    words: list[str] = field(default_factory=list)  # the words of the finals
    read_by: Counter[str] = field(default_factory=Counter)  # what read the finals, with a second pass
    ended: str = ""  # "done", or the reason for another end
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: asyncio.Task[None] | None = None

    async def begin(self, url: str, audio: bytes, offset: int = 0) -> None:
        """Open the session and start sending at this offset of the audio. ConnectionError if it is refused."""
        websocket = await connect(url, compression=None)
        await websocket.send(json.dumps({"type": "start", "live": True, "second_pass": self.second_pass}))
        event = await _next_event(websocket)
        if event["type"] != "ready":
            await websocket.wait_closed()
            raise ConnectionError(f"a session was refused: {event.get('code', event['type'])}")
        self._sending = asyncio.create_task(self._send(websocket, audio, offset))

    async def end(self) -> None:
        """Stop sending, and wait for the last words."""
        self._stop.set()
        if self._sending is not None:
            await self._sending

    async def _send(self, websocket: ClientConnection, audio: bytes, offset: int) -> None:
        began = time.monotonic()
        receiving = asyncio.create_task(self._receive(websocket, began))
        try:
            number = 0
            while not self._stop.is_set() and not receiving.done():
                number += 1
                # A frame is complete when its last sample was spoken.
                await asyncio.sleep(began + number * FRAME_S - time.monotonic())
                at = (offset + number * FRAME) % (len(audio) - FRAME) // 2 * 2
                await websocket.send(audio[at : at + FRAME])
            await websocket.send('{"type":"stop"}')
            await asyncio.wait({receiving}, timeout=END_LIMIT_S)
        except ConnectionClosed:
            await asyncio.wait({receiving}, timeout=END_LIMIT_S)
        finally:
            receiving.cancel()
            await websocket.close()
        self.ended = self.ended or f"close {websocket.close_code}"

    async def _receive(self, websocket: ClientConnection, began: float) -> None:
        with suppress(ConnectionClosed):
            async for text in websocket:
                event = json.loads(text)
                if event["type"] == "partial":
                    now = time.monotonic()
                    self.delays.append((now, now - began - event["audio_ms"] / 1000))
                elif event["type"] == "final":
                    self.words += event["text"].split()
                    if "read_by" in event:
                        self.read_by[event["read_by"]] += 1
                elif event["type"] in ("done", "error"):
                    self.ended = event.get("code", "done")


@dataclass
class LagWatch:
    """Polls the service for the lag of the session that is furthest behind."""

    url: str
    lags: list[tuple[float, float]] = field(default_factory=list)

    async def watch(self) -> None:
        """Poll the service until cancelled."""
        while True:
            lag = await asyncio.to_thread(self._look)
            self.lags.append((time.monotonic(), lag))
            await asyncio.sleep(POLL_S)

    def most(self, since: float, until: float) -> float:
        """Return the largest lag between these times."""
        return max((lag for at, lag in self.lags if since <= at <= until), default=0.0)

    def _look(self) -> float:
        with urllib.request.urlopen(page(self.url, "/metrics"), timeout=10) as answer:
            match = LAG.search(answer.read().decode())
        return float(match[1]) if match else 0.0


@dataclass(frozen=True)
class Period:
    """The delays of a number of sessions between two times."""

    sessions: int
    delays_s: Sequence[float]
    lag_s: float

    def quantile(self, part: float) -> float:
        """Return the delay within which this part of the partials arrived."""
        ordered = sorted(self.delays_s)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else float("nan")

    def line(self, name: str) -> str:
        """Return a line of the table with HEADS."""
        figures = (f"{self.quantile(part):.3f}" for part in (0.5, 0.95, 0.99))
        cells = (name, str(self.sessions), str(len(self.delays_s)), *figures, f"{self.lag_s:.2f}")
        return "| " + " | ".join(cells) + " |"


HEADS = "| | sessions | partials | p50 s | p95 s | p99 s | lag at most s |\n| --- |" + 6 * " ---: |"


async def open_sessions(
    url: str, audio: bytes, number: int, over_s: float, *, second_pass: bool = False
) -> list[LiveSession]:
    """Start this many sessions, spread evenly over these seconds. ConnectionError if one is refused."""
    sessions = [LiveSession(second_pass) for _ in range(number)]

    async def join(index: int) -> None:
        await asyncio.sleep(index * over_s / number)
        await sessions[index].begin(url, audio, index * len(audio) // number)

    refused = [error for error in await asyncio.gather(*map(join, range(number)), return_exceptions=True) if error]
    if refused:
        await asyncio.gather(*(session.end() for session in sessions))
        raise refused[0]
    return sessions


def period(sessions: Iterable[LiveSession], lag: LagWatch, since: float, until: float) -> Period:
    """Return the delays of these sessions between these times."""
    all_of_them = list(sessions)
    delays = [late for session in all_of_them for at, late in session.delays if since <= at <= until]
    return Period(len(all_of_them), delays, lag.most(since, until))


def page(url: str, path: str) -> str:
    """Return the address of a page of the service whose websocket has this URL."""
    return url.replace("ws", "http", 1).rpartition("/v1/")[0] + path


async def _next_event(websocket: ClientConnection) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(await asyncio.wait_for(websocket.recv(), READY_LIMIT_S))
    return event
