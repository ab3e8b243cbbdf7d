"""Runs a load measurement: orders the clients through its levels, and gathers what they and the system tell."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from streamer.base.machine import processors
from streamer.client import KEY_VARIABLE
from streamer.commands.accuracy.manifest import normalise
from streamer.commands.traffic.clients import END_LIMIT_S, Order, Plan
from streamer.commands.traffic.metrics import BatchCounts, batch_counts, batches_between
from streamer.commands.traffic.processes import BRIDGE, Processes, Use, graphics, most_graphics, work_between
from streamer.commands.traffic.results import (
    CLIENTS,
    Delay,
    End,
    Graphics,
    Level,
    Limit,
    WordCount,
    limit_of,
)
from streamer.commands.traffic.service import OwnService

# The sessions of a level begin spread over this time, but not slower than a few of them a second.
RAMP_S: Final = 8.0
FASTEST_S: Final = 0.2
SETTLE_S: Final = 0.5  # from the order to the first session
WARM_UP_S: Final = 2.0
OVER_LIMIT_S: Final = END_LIMIT_S + 30.0
LOOK_S: Final = 1.0  # how often it looks at memory, at the GPU, and whether the service is there
GONE_S: Final = 8.0  # a service that nobody can connect to for so long has died
SILENT_S: Final = 3.0  # sessions that hear nothing for so long are a reason to look whether it is there
CONNECT_S: Final = 2.0
DOUBT: Final = 0.15  # the words before a pause are a part of all words that differs at most so much from that of time
# Without a list of levels, the sessions are doubled until so many levels in a row do not hold.
LEVELS_BEYOND: Final = 2
FIRST_LEVELS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# A client process costs memory and a second at the start, and one carries dozens of sessions.
MOST_CLIENTS: Final = 4
FEWEST_CLIENTS: Final = 2


@dataclass
class Measurement:
    """All that was found so far. It can be read at any moment, also after the measurement was interrupted."""

    levels: list[Level] = field(default_factory=list)
    end: End = End.WHOLE
    why: str = ""  # more about the end
    clients: int = 0


@dataclass(frozen=True)
class Setup:
    """What is measured: the levels, for how many seconds each, by how many client processes."""

    plan: Plan
    texts: Sequence[str | None]  # the text of each recording; None without one
    levels: Iterable[int]
    seconds: float
    clients: int
    until_knee: bool = False  # end when the levels do not hold any more
    key: str | None = None  # for the service; None: the one in the environment


@dataclass(frozen=True)
class Source:
    """Where figures about the service come from, besides its sessions."""

    service: int | None = None  # the process of the service on this machine
    name: str = BRIDGE  # how the report calls this process
    own: OwnService | None = None  # the service that was started for the measurement
    triton_metrics: str | None = None  # the address of Triton's metrics; None: those of the service's own Triton


class Display(Protocol):
    """Where the progress is shown."""

    def show(self, level: Level, measured_s: float) -> None:
        """Show the present level, and for how long it has been measured."""

    def finish(self, level: Level) -> None:
        """Show a level that was measured to its end."""


class ClientDied(Exception):
    """A client process ended by itself."""


class _Gone(Exception):
    """The service does not answer any more. The message says more."""


class _Client:
    """A client process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.live = 0
        self.cpu_s = 0.0
        self.over = asyncio.Event()
        self.ready = asyncio.Event()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def order(self, content: Mapping[str, Any]) -> None:
        """Give it an order."""
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps(content) + "\n").encode())
        with suppress(ConnectionError):
            await self._process.stdin.drain()

    async def listen(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        """Take what it tells, until it ends. ClientDied at its end."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if "ready" in message:
                self.ready.set()
            elif "over" in message:
                self.over.set()
            else:
                self.live, self.cpu_s = message["live"], message["cpu_s"]
                take(message["found"])
        raise ClientDied

    async def end(self) -> None:
        """End it, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), CONNECT_S)
        except asyncio.TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def usual_clients() -> int:
    """Return how many client processes there are unless somebody chooses another number."""
    return min(MOST_CLIENTS, max(FEWEST_CLIENTS, processors()))


async def measure(setup: Setup, source: Source, result: Measurement, display: Display) -> None:
    """Measure all levels, and note in `result` what is found, and how it ended."""
    ramp = _Ramp(setup, source, result, display)
    result.clients = setup.clients
    try:
        async with ramp.running():
            await ramp.warm_up()
            for sessions in setup.levels:
                await ramp.level(sessions)
                display.finish(result.levels[-1])
                beyond = [limit_of(level) for level in result.levels[-LEVELS_BEYOND:]]
                if setup.until_knee and len(beyond) == LEVELS_BEYOND and Limit.NOTHING not in beyond:
                    break
    except _Gone as error:
        result.end, result.why = End.SERVICE_DIED, str(error)
        if result.levels and ramp.live:
            result.levels[-1].failed["lost"] += ramp.live
    except ClientDied:
        result.end = End.CLIENT_DIED
    except asyncio.CancelledError:
        result.end = End.INTERRUPTED
        raise


class _Ramp:
    def __init__(self, setup: Setup, source: Source, result: Measurement, display: Display) -> None:
        self._setup = setup
        self._source = source
        self._result = result
        self._display = display
        self._heard_at = 0.0  # when a client last said that a session heard something
        self._clients: list[_Client] = []
        self._listening: list[asyncio.Task[None]] = []
        self._processes = Processes(None, (), os.getpid())
        self._references = [None if text is None else normalise(text) for text in setup.texts]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the clients, and end them."""
        key = self._setup.key
        environment = None if key is None else {**os.environ, KEY_VARIABLE: key}
        try:
            for _ in range(self._setup.clients):
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "streamer.commands.traffic.clients",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    env=environment,
                    limit=1 << 24,  # the longest line, which grows with the sessions
                    start_new_session=True,  # Ctrl-C in a terminal must reach only this process
                )
                client = _Client(process)
                self._clients.append(client)
                self._listening.append(asyncio.create_task(client.listen(self._take)))
                await client.order(asdict(self._setup.plan))
            self._processes = Processes(
                self._source.service, [each.pid for each in self._clients], os.getpid(), self._source.name
            )
            await self._all(each.ready for each in self._clients)
            yield
        finally:
            for task in self._listening:
                task.cancel()
            await asyncio.gather(*self._listening, return_exceptions=True)
            await asyncio.gather(*(client.end() for client in self._clients))

    @property
    def live(self) -> int:
        """How many sessions there are now, as the clients last said."""
        return sum(client.live for client in self._clients)

    async def warm_up(self) -> None:
        """Let one session speak and measure nothing. The first one after a start is slower than all others."""
        begin = time.monotonic() + SETTLE_S
        await self._order(1, begin, begin, begin + WARM_UP_S)
        await self._all(each.over for each in self._clients)

    async def level(self, sessions: int) -> None:
        """Measure one level."""
        level = Level(sessions)
        self._result.levels.append(level)
        begin = time.monotonic() + SETTLE_S
        start = begin + (min(RAMP_S, FASTEST_S * sessions) if sessions > 1 else 0.0)
        end = start + self._setup.seconds
        await self._order(sessions, begin, start, end)
        watching = asyncio.create_task(self._watch(level, start, end))
        noticing = asyncio.create_task(self._notice_death())
        finishing = asyncio.create_task(self._all(each.over for each in self._clients))
        try:
            await asyncio.wait({watching, noticing}, return_when=asyncio.FIRST_COMPLETED)
            if not noticing.done():
                await asyncio.wait({finishing, noticing}, return_when=asyncio.FIRST_COMPLETED)
            if noticing.done():
                noticing.result()
            await watching
            await finishing
            if (level.failed or level.refused["away"]) and not await _accepts(self._setup.plan.url):
                raise _Gone(f"nobody can connect to {urlsplit(self._setup.plan.url).netloc}")
            level.whole = True
        finally:
            for task in (watching, noticing, finishing):
                task.cancel()
            await asyncio.gather(watching, noticing, finishing, return_exceptions=True)

    async def _order(self, sessions: int, begin: float, start: float, end: float) -> None:
        """Give each client its part of the sessions: every n-th, so that all are busy from the beginning."""
        for number, client in enumerate(self._clients):
            client.over.clear()
            speakers = list(range(number, sessions, len(self._clients)))
            await client.order(asdict(Order(speakers, sessions, begin, start, end)))

    def _take(self, found: Mapping[str, Any]) -> None:
        """Add what a client found to the present level."""
        if not self._result.levels:
            return
        level = self._result.levels[-1]
        for kind in Delay:
            level.delays[kind] += found.get(kind.value, ())
        if any(kind.value in found for kind in Delay) or "opened" in found:
            self._heard_at = time.monotonic()
        level.late_s += found.get("late", ())
        level.refused.update(found.get("refused", {}))
        level.failed.update(found.get("failed", {}))
        level.opened += found.get("opened", 0)
        level.done += found.get("done", 0)
        level.recovered += found.get("recovered", 0)
        level.audio_s += found.get("audio_s", 0.0)
        level.live = max(level.live, self.live)
        for recording, left_out, text in found.get("said", ()):
            reference = self._references[recording]
            if reference is not None:
                level.words += count_words(reference, normalise(text), left_out)

    async def _watch(self, level: Level, start: float, end: float) -> None:
        """Note what the processes use while the level is measured."""
        await self._until(level, start, start)
        level.late_s.clear()
        before, cpu_before = self._processes.use(), [client.cpu_s for client in self._clients]
        batches_before = await self._batches()
        began, seen = time.monotonic(), list[Graphics]()
        peaks: dict[str, float] = {}
        while (now := time.monotonic()) < end:
            await self._until(level, start, min(end, now + LOOK_S))
            _raise_peaks(peaks, self._processes.use())
            if (look := await asyncio.to_thread(graphics)) is not None:
                seen.append(look)
            self._note(level, before, peaks, began)
        batches = await self._batches()
        level.graphics, level.batches = most_graphics(seen), batches_between(batches_before, batches)
        used = [client.cpu_s - earlier for client, earlier in zip(self._clients, cpu_before, strict=True)]
        level.client_cpu = max(used) / level.measured_s

    def _note(self, level: Level, before: Mapping[str, Use], peaks: Mapping[str, float], began: float) -> None:
        level.measured_s = time.monotonic() - began
        level.work = work_between(before, self._processes.use(), peaks)
        if CLIENTS not in level.work:  # the system tells nothing about processes
            level.work = {}

    async def _until(self, level: Level, start: float, when: float) -> None:
        while (now := time.monotonic()) < when:
            self._display.show(level, max(0.0, now - start))
            await asyncio.sleep(min(0.25, when - now))

    async def _batches(self) -> BatchCounts | None:
        address = self._source.triton_metrics or self._processes.metrics_address()
        return None if address is None else await asyncio.to_thread(batch_counts, address)

    async def _notice_death(self) -> None:
        """Watch the service and the clients. Raises _Gone or ClientDied."""
        self._heard_at = gone_at = time.monotonic()
        while True:
            for task in self._listening:
                if task.done():
                    task.result()
            if self._source.own is not None and not self._source.own.alive:
                raise _Gone(self._source.own.death())
            # Only silence is a reason to ask. A connection without a request would be noise in the service's metrics.
            if time.monotonic() - self._heard_at < SILENT_S or await _accepts(self._setup.plan.url):
                gone_at = time.monotonic()
            elif time.monotonic() - gone_at > GONE_S:
                raise _Gone(f"nobody can connect to {urlsplit(self._setup.plan.url).netloc}")
            await asyncio.sleep(LOOK_S)

    async def _all(self, events: Iterable[asyncio.Event]) -> None:
        """Wait for an event of each client. ClientDied if one ends before."""
        waiting: asyncio.Future[Any] = asyncio.gather(*(event.wait() for event in events))
        ends: set[asyncio.Future[Any]] = {waiting, *self._listening}
        try:
            done, _ = await asyncio.wait(
                ends,
                timeout=self._setup.seconds + RAMP_S + OVER_LIMIT_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if waiting not in done:
                raise ClientDied
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)


def count_words(reference: Sequence[str], heard: Sequence[str], left_out: float) -> WordCount:
    """Count the errors in a recording of which this part at the beginning was left out.

    Nobody knows how many words that were. So it is the number near this part with which there are the fewest errors.
    """
    from streamer.commands.accuracy.word_errors import count_errors  # which `streamer serve` does without

    if not left_out:
        return WordCount(1, len(reference), count_errors(reference, heard).word_errors)
    likely, most = round(left_out * len(reference)), len(reference)
    doubt = 1 + round(DOUBT * most)
    rests = [reference[first:] for first in range(max(0, likely - doubt), min(most, likely + doubt) + 1)]
    errors, words = min((count_errors(rest, heard).word_errors, -len(rest)) for rest in rests)
    return WordCount(1, -words, errors)


def _raise_peaks(peaks: dict[str, float], uses: Mapping[str, Use]) -> None:
    for name, use in uses.items():
        peaks[name] = max(peaks.get(name, 0.0), use.memory_mb)


async def _accepts(url: str) -> bool:
    """Return whether somebody accepts a connection at the address of a service."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(parts.hostname, port), CONNECT_S)
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
