"""What the bridge costs: live sessions at the pace of speech in front of a recogniser that costs little itself.

Triton, the bridge and its protocol are the real ones. The model is the exact one of `streamer.testing`, so hundreds of
sessions fit on a few processors. The clients are one process that has little to do for each message: their frames are
made before the measurement.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from streamer.base.machine import descendants
from streamer.commands.traffic.processes import BRIDGE, NAMES, kind_of
from streamer.commands.traffic.service import own_service
from streamer.testing.exact_service import exact_repository
from streamer.testing.exact_speech import say, silence

BYTES_PER_MS: Final = 32
RAMP_S: Final = 1.5
WARM_UP_S: Final = 1.5
SETTLE_S: Final = 0.3
END_LIMIT_S: Final = 30.0
FREE_SLOTS: Final = 8  # besides those of the sessions: one is the probe's, and some are still ending
SENTENCES: Final = ("we talk about the weather and the news", "nobody knows what comes next", "that is all for today")
PAUSE_MS: Final = 1200  # it ends a segment
PARENT: Final = "of it, the parent of workers"
NOBODY: Final = 0  # as a number of sessions: the service at rest
_WELCOME: Final = b" 101 "


class NotMeasured(Exception):
    """A session was refused or failed. The message says more."""


@dataclass(frozen=True)
class Measurement:
    """What is measured: which numbers of sessions, for how long each, and in messages of which length."""

    sessions: Sequence[int]
    seconds: float
    chunk_ms: int


@dataclass(frozen=True)
class Figures:
    """What was found for one number of sessions."""

    cost_ms: Mapping[str, float]  # processor time for a second of one session's audio, by process; at rest for a second
    partials_s: Sequence[float]  # from the last sample that a partial covers to its arrival
    last_s: Sequence[float]  # from the last sample of the audio to `done`
    clients: float  # the part of a processor that the clients used


@dataclass(frozen=True)
class Variant:
    """What is compared: the code of a tree, with settings of its own."""

    tree: Path
    settings: Sequence[str] = ()


Results = dict[str, dict[int, list[Figures]]]
"""The figures of each variant, by the number of sessions: one for each round."""


def measure(
    measurement: Measurement, variants: Mapping[str, Variant], rounds: int, settings: Sequence[str] = ()
) -> Iterator[Results]:
    """Measure all variants in each round, and yield all figures so far. The one that comes first changes."""
    results: Results = {name: defaultdict(list) for name in variants}
    audio = speech()
    for number in range(rounds):
        for name in list(variants)[:: -1 if number % 2 else 1]:
            variant = variants[name]
            all_settings = (*settings, *variant.settings)
            with service_of(variant.tree, max(measurement.sessions), all_settings) as (url, process):
                for sessions in measurement.sessions:
                    figures = asyncio.run(level(url, process, audio, sessions, measurement))
                    results[name][sessions].append(figures)
        yield results


def speech() -> bytes:
    """Return sentences with a pause after each."""
    return b"".join(say(each).tobytes() + silence(PAUSE_MS).tobytes() for each in SENTENCES)


@contextmanager
def service_of(tree: Path, sessions: int, settings: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """Run `streamer serve` of this tree with an exact model. Yield its address and its process."""
    with TemporaryDirectory(prefix="streamer-bridge-cost-") as folder:
        repository = exact_repository(Path(folder))
        slots = str(sessions + FREE_SLOTS)
        command = ["--repository", str(repository), "--reader", "off", "--slots", slots, *settings]
        with own_service(command, tree) as service:
            yield service.wait_ready(), service.pid


async def level(url: str, process: int, audio: bytes, sessions: int, measurement: Measurement) -> Figures:
    """Speak in so many sessions at a time, and return what they cost. With NOBODY, the service is at rest."""
    frames = chunk_frames(audio, measurement.chunk_ms)
    # Each session begins at a time and a place of its own, so neither steps nor ends of segments come together.
    chance = random.Random(sessions)
    ramp = time.monotonic() + SETTLE_S
    since = ramp + RAMP_S + WARM_UP_S
    until = since + measurement.seconds
    talks = [
        Talk(url, islice(cycle(frames), chance.randrange(len(frames)), None), measurement.chunk_ms / 1000, since, until)
        for _ in range(sessions)
    ]
    tasks = [asyncio.create_task(each.speak(ramp + RAMP_S * chance.random())) for each in talks]
    try:
        await asyncio.sleep(since - time.monotonic())
        before, began, own = used_s(process), time.monotonic(), time.process_time()
        await asyncio.sleep(until - time.monotonic())
        after, took, busy = used_s(process), time.monotonic() - began, time.process_time() - own
        await asyncio.wait_for(asyncio.gather(*tasks), END_LIMIT_S)
    except asyncio.TimeoutError:
        raise NotMeasured(f"{sessions} sessions did not end within {END_LIMIT_S:g} s") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    audio_s = took * max(1, sessions)
    return Figures(
        {name: 1000 * (used - before.get(name, 0.0)) / audio_s for name, used in after.items()},
        [each for talk in talks for each in talk.partials_s],
        [talk.last_s for talk in talks],
        busy / took,
    )


def used_s(service: int) -> dict[str, float]:
    """Return the processor time of the service's processes so far, by name.

    The scheduler counts nanoseconds for each thread. What /proc/PID/stat says is too coarse for a single session.
    """
    used: dict[str, float] = defaultdict(float)
    used[BRIDGE] = _of_threads(service)
    for each in descendants(service):
        if (name := kind_of(each.pid)) in (BRIDGE, *NAMES.values()):
            used[name] += _of_threads(each.pid)
    if any(kind_of(each.pid) == BRIDGE for each in descendants(service)):
        used[PARENT] = _of_threads(service)
    return dict(used)


def _of_threads(process: int) -> float:
    nanoseconds = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # it has just ended
            nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


# A client that costs little: it speaks the native protocol over a plain socket.


def frame(content: bytes, opcode: int = 2) -> bytes:
    """Return a websocket frame of a client. Its mask is 0, which leaves the content as it is."""
    size = len(content)
    length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
    return bytes([0x80 | opcode]) + length + bytes(4) + content


def chunk_frames(audio: bytes, chunk_ms: int) -> list[bytes]:
    """Return the frames of this audio, each of this length."""
    size = chunk_ms * BYTES_PER_MS
    return [frame(audio[at : at + size]) for at in range(0, len(audio) - size + 1, size)]


class Talk(asyncio.Protocol):
    """One session, which sends frames until a time, and measures how long it waits for answers."""

    def __init__(self, url: str, frames: Iterable[bytes], every_s: float, since: float, until: float) -> None:
        """`since`: what was spoken before is not measured."""
        self.partials_s: list[float] = []
        self.last_s = 0.0
        self._parts = urlsplit(url)
        self._frames = frames
        self._every_s = every_s
        self._since, self._until = since, until
        self._unread = bytearray()
        self._began: float | None = None  # when the first sample was spoken; None before `ready`
        self._stopped = 0.0
        self._ready, self._over = asyncio.Event(), asyncio.Event()  # both are set at the end
        self._failure = "its connection was lost"
        self._done = False

    async def speak(self, at: float) -> None:
        """Open the session at this time, and speak. NotMeasured if it does not end in order."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(at - time.monotonic())
        transport, _ = await loop.create_connection(lambda: self, self._parts.hostname or "", self._parts.port or 0)
        try:
            transport.write(self._handshake())
            transport.write(frame(b'{"type":"start","live":true}', 1))
            await self._ready.wait()
            began = self._began = time.monotonic()
            for number, chunk in enumerate(self._frames, 1):
                # A chunk is complete when its last sample was spoken.
                due = began + number * self._every_s
                if due > self._until or self._over.is_set():
                    break
                await asyncio.sleep(due - time.monotonic())
                self._stopped = due
                transport.write(chunk)
            transport.write(frame(b'{"type":"stop"}', 1))
            await self._over.wait()
        finally:
            transport.close()
        if not self._done:
            raise NotMeasured(f"a session ended too early: {self._failure}")

    def data_received(self, data: bytes) -> None:
        """Read the frames of the service."""
        unread = self._unread
        unread += data
        if not self._ready.is_set() and unread.startswith(b"HTTP"):
            head, end, rest = unread.partition(b"\r\n\r\n")
            if not end:
                return
            if _WELCOME not in head:
                self._end(head.decode(errors="replace"))
                return
            unread[:] = rest
        while len(unread) >= 2:
            size, start = unread[1], 2
            if size > 125:
                start = 4 if size == 126 else 10
                size = int.from_bytes(unread[2:start], "big")
            if len(unread) < start + size:
                return
            opcode, content = unread[0] & 15, bytes(unread[start : start + size])
            del unread[: start + size]
            if opcode == 1:
                self._hear(content)
            elif opcode == 8:
                self._end(content[2:].decode(errors="replace"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self._end(self._failure)

    def _hear(self, text: bytes) -> None:
        now, message = time.monotonic(), json.loads(text)
        kind = message["type"]
        if kind == "ready":
            self._ready.set()
        elif kind == "partial" and self._began is not None:
            spoken = self._began + message["audio_ms"] / 1000
            if self._since <= spoken < self._until:
                self.partials_s.append(now - spoken)
        elif kind == "done":
            self._done, self.last_s = True, now - self._stopped
            self._end("")
        elif kind == "error":
            self._end(str(message["message"]))

    def _end(self, why: str) -> None:
        if not self._over.is_set():
            self._failure = why
            self._ready.set()
            self._over.set()

    def _handshake(self) -> bytes:
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {self._parts.path} HTTP/1.1",
            f"Host: {self._parts.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        return "\r\n".join([*lines, "", ""]).encode()


# The table.

_KINDS: Final = (BRIDGE, PARENT, *NAMES.values())
_HEADS: Final = ("sessions", "code", *_KINDS, "partials p50 s", "p95 s", "end p50 s", "p95 s")


def table(results: Results) -> str:
    """Return a row for each number of sessions and variant: medians of all rounds, with the least and most cost."""
    lines = [f"| {' | '.join(_HEADS)} |", f"| ---: | --- |{' ---: |' * (len(_HEADS) - 2)}"]
    for sessions in next(iter(results.values())):
        for name, found in results.items():
            rounds = found[sessions]
            cells = [str(sessions) if sessions else "at rest", name]
            cells += [_spread([each.cost_ms.get(kind, 0.0) for each in rounds]) for kind in _KINDS]
            for waits in ([each.partials_s for each in rounds], [each.last_s for each in rounds]):
                cells += [_middle(waits, part) for part in (0.5, 0.95)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def busiest(results: Results) -> float:
    """Return the largest part of a processor that the clients used."""
    return max(each.clients for found in results.values() for rounds in found.values() for each in rounds)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def _middle(rounds: Sequence[Sequence[float]], part: float) -> str:
    """Return the median of a quantile over all rounds."""
    quantiles = [sorted(waits)[int(part * len(waits))] for waits in rounds if waits]
    return f"{median(quantiles):.3f}" if quantiles else "-"
