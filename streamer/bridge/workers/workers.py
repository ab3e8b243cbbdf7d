"""The process that starts the workers of a service and starts those again that end. It serves no session itself.

It has what there is once: the sockets at which the workers accept connections, the embedded Triton, the usage file. It
passes signals on, and rolls a model at all workers. No chunk of a session needs it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from streamer.base.json_types import JsonObject
from streamer.bridge.administration import Wish
from streamer.bridge.control import RollRequest, Tell
from streamer.bridge.telemetry.logs import Log, say
from streamer.bridge.telemetry.supervisor_messages import PID_VARIABLE, SOCKET_VARIABLE, WATCHDOG_VARIABLE
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.server import TritonServer
from streamer.bridge.upstreams.pool import RollError
from streamer.bridge.workers.dialogue import Answer, Dialogue, DialogueEnded
from streamer.bridge.workers.joined_metrics import past_of
from streamer.bridge.workers.share import SharedRecord
from streamer.bridge.workers.shared_triton import TritonForWorkers

log = Log("streamer.bridge")

# The pauses before a worker is started again that has ended: they grow while it does not become ready.
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 10.0
# A worker that has run for this time is well: when it ends, it is started again at once.
WELL_S: Final = 60.0
# A worker says this often that its event loop runs. One that is silent for so long is killed, because its clients would
# wait for it. Only then another one may go on with their sessions.
ALIVE_EVERY_S: Final = 2.0
SILENT_LIMIT_S: Final = 30.0
# One that starts must load its code first, also on a machine that is overloaded. Then it says so while it waits for
# Triton, too.
FIRST_WORD_LIMIT_S: Final = 120.0
# How long a worker may take to answer an operator: it waits for the others.
ADMINISTER_LIMIT_S: Final = 12.0
# How long a worker may take to end besides the time in which its sessions may go on.
END_LIMIT_S: Final = 20.0


class WorkerError(Exception):
    """The service cannot start, because a worker cannot. The worker has said why."""


@dataclass(frozen=True)
class Place:
    """What one worker process needs to know. The numbers of sockets are descriptors that it inherits."""

    number: int  # from 1; a process that replaces another one has its number
    identity: int  # that no other process of the service has or had
    workers: int
    folder: Path
    dialogue: int
    sockets: tuple[int, ...]
    wyoming_sockets: tuple[int, ...]
    starts: int
    models: Mapping[str, str]  # the Triton models by public name, as the last roll left them
    capacity: int | None  # what the first worker has measured, if that was asked for
    measured: bool  # whether it was measured


# Writes down what a worker needs, and returns the command that runs it.
Launch = Callable[[Place], Sequence[str]]


@dataclass
class _Running:
    """A worker process."""

    place: Place
    process: asyncio.subprocess.Process
    dialogue: Dialogue
    ready: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    heard_at: float = field(default_factory=time.monotonic)
    spoke: bool = False
    conversation: asyncio.Task[None] | None = None


class Workers:
    """All workers of a service."""

    def __init__(
        self,
        folder: Path,
        number: int,
        launch: Launch,
        sockets: Sequence[socket.socket],
        wyoming_sockets: Sequence[socket.socket],
        models: Mapping[str, str],
        record: SharedRecord,
        triton: TritonServer | None,
        grace: float,
    ) -> None:
        """`folder`: a private one. `grace`: how long sessions may go on after the end was asked for."""
        self._folder, self._number, self._launch = folder, number, launch
        self._sockets, self._wyoming_sockets = sockets, wyoming_sockets
        self._models = dict(models)
        self._record = record
        self._grace = grace
        self._triton = None if triton is None else TritonForWorkers(triton, self._identities)
        self._running: dict[int, _Running] = {}  # by number
        self._starts = dict.fromkeys(range(1, number + 1), 0)
        self._identity = 0
        self._capacity: int | None = None
        self._measured = False
        self._keeping: dict[int, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None
        self._first: dict[int, asyncio.Future[None]] = {}  # done when a worker was ready for the first time
        self._starting: set[int] = set()
        self._none_starts = asyncio.Event()
        self._none_starts.set()
        self._rolling = asyncio.Lock()  # no worker starts meanwhile
        self._on_asking: Callable[[], None] = lambda: None
        self._unburied: list[int] = []  # processes that ended, and whose sessions still count
        self._ending = False

    @property
    def names(self) -> tuple[str, ...]:
        """The public names of the models."""
        return tuple(self._models)

    @property
    def pids(self) -> dict[int, int]:
        """The processes that run, by the numbers of the workers."""
        return {number: running.process.pid for number, running in self._running.items()}

    async def start(self) -> None:
        """Start all workers, and wait until they are ready. Raise WorkerError if one of them cannot start.

        The first one comes first, because it measures how many sessions there may be, if that was asked for.
        """
        self._watching = asyncio.create_task(self._watch())
        await self._begin([1])
        await self._begin(range(2, self._number + 1))

    async def stop(self) -> None:
        """Let all sessions end in order, and then the workers. All of it takes a bounded time."""
        self._ending = True
        for running in list(self._running.values()):
            running.dialogue.tell("stop")
        for number, keeping in self._keeping.items():
            if number not in self._running:
                keeping.cancel()
        ends = [asyncio.create_task(running.process.wait()) for running in self._running.values()]
        if ends:
            await asyncio.wait(ends, timeout=self._grace + END_LIMIT_S)
        self._kill_all()
        await asyncio.gather(*self._keeping.values(), return_exceptions=True)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._triton is not None:
            await self._triton.end()

    async def hurry(self) -> None:
        """Make the end quick: cut off all sessions, and kill the embedded Triton."""
        for running in self._running.values():
            running.dialogue.tell("hurry")
        if self._triton is not None:
            await self._triton.cut_off()

    def refresh(self) -> None:
        """Let all workers read keys and certificates again."""
        for running in self._running.values():
            running.dialogue.tell("refresh")

    async def administer(self, question: JsonObject) -> JsonObject:
        """Let a worker answer an operator: it asks the others. One that has not been heard for long is asked last."""
        Wish(question["admin"])  # before a worker fails on it
        for running in sorted(self._running.values(), key=lambda each: -each.heard_at):
            try:
                asking = running.dialogue.ask("administer", question=question)
                answer = await asyncio.wait_for(asking, ADMINISTER_LIMIT_S)
            except (asyncio.TimeoutError, TritonError):
                continue
            assert isinstance(answer, dict)
            return answer
        return {"failed": "No worker answers; try again in a few seconds."}

    async def roll(self, request: RollRequest, tell: Tell) -> None:
        """Replace a model at all workers. Raise RollError if that fails; then nothing has changed."""
        name, model = request.name, request.model
        async with self._rolling:
            await self._none_starts.wait()
            former, asked = self._models[name], list(self._running.values())
            self._on_asking = _once(lambda: tell("told", f"asking each Triton to load and test {model}"))
            answers = await asyncio.gather(
                *(each.dialogue.ask("roll", name=name, model=model, limit_s=request.limit_s) for each in asked),
                return_exceptions=True,
            )
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            reasons = [str(failure) for failure in failures if not isinstance(failure, DialogueEnded)]
            rolled = [each for each, answer in zip(asked, answers, strict=True) if isinstance(answer, int)]
            if reasons or not rolled:
                back = (each.dialogue.ask("roll", name=name, model=former, limit_s=request.limit_s) for each in rolled)
                await asyncio.gather(*back, return_exceptions=True)
                raise RollError(reasons[0] if reasons else "no worker is ready")
            self._models[name] = model
        held = sum(answer for answer in answers if isinstance(answer, int))
        tell("told", f"new sessions use {model}; sequences of {former} that move at their next cut: {held}")
        gone = await asyncio.gather(*(each.dialogue.ask("gone", name=name) for each in rolled), return_exceptions=True)
        kept = {str(why): None for answer in gone if isinstance(answer, list) for why in answer}
        tell("done", "; ".join([f"{model} is in use", *(kept or [f"{former} is unloaded"])]))

    async def _begin(self, numbers: Sequence[int]) -> None:
        first = {number: asyncio.get_running_loop().create_future() for number in numbers}
        self._first.update(first)
        self._keeping.update((number, asyncio.create_task(self._keep(number))) for number in numbers)
        await asyncio.gather(*first.values())

    async def _keep(self, number: int) -> None:
        """Start a worker, and start it again whenever it ends."""
        pause, loops = FIRST_PAUSE_S, False
        while not self._ending:
            began = time.monotonic()
            try:
                running, is_ready = await self._start(number)
            # No memory, process, descriptor or room on the disk is left, perhaps for a moment, or no thread in which
            # asyncio waits for the process (RuntimeError), which ends then, because its dialogue has.
            except (OSError, RuntimeError) as error:
                failure = f"worker {number} cannot be started ({getattr(error, 'strerror', None) or error})"
                if not self._first[number].done():
                    self._first[number].set_exception(WorkerError(failure))
                    return
                if not loops:
                    loops = True
                    say(f"{failure}: it is tried again, at most every {LONGEST_PAUSE_S:g} s.", logging.ERROR)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            if is_ready:
                loops = False
                if self._first[number].done():
                    say(f"worker {number} runs again.")
                else:
                    self._first[number].set_result(None)
            status = await running.process.wait()
            del self._running[number]
            self._bury(running.place.identity)
            if self._ending:
                return
            if not self._first[number].done():
                self._first[number].set_exception(WorkerError(f"worker {number} {_end(status)} before it was ready"))
                return
            if time.monotonic() - began > WELL_S:
                pause = FIRST_PAUSE_S
            if is_ready:
                again = "its sessions go on at the others; it is started again"
                say(f"worker {number} {_end(status)}: {again}.", logging.WARNING)
            elif not loops:  # only once, because it may go on for hours
                loops = True
                often = f"it is tried again, at most every {LONGEST_PAUSE_S:g} s"
                say(f"worker {number} {_end(status)} before it was ready: {often}.", logging.ERROR)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _bury(self, *identities: int) -> None:
        """Free what processes had that ended; later, if that is not possible now."""
        self._unburied = [each for each in (*self._unburied, *identities) if not self._record.bury(each)]

    async def _join_past(self) -> None:
        """Join the words of workers that have ended into one text."""
        past = self._record.past()
        if len(past) < 2:
            return
        joined = await asyncio.to_thread(past_of, past)
        if len(self._record.past()) == len(past):  # otherwise another one was buried meanwhile
            self._record.keep_past(joined)

    async def _start(self, number: int) -> tuple[_Running, bool]:
        """Start a worker. Return it, and whether it became ready before it ended."""
        async with self._rolling:
            self._starting.add(number)
            self._none_starts.clear()
        try:
            running = self._running[number] = await self._spawn(number)
            ended = asyncio.create_task(running.process.wait())
            ends: set[asyncio.Future[int] | asyncio.Future[None]] = {ended, running.ready}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return running, running.ready.done()
        finally:
            self._starting.discard(number)
            if not self._starting:
                self._none_starts.set()

    async def _spawn(self, number: int) -> _Running:
        self._starts[number] += 1
        self._identity += 1
        self._record.note_starts(self._identity)
        ours, theirs = socket.socketpair()
        with ExitStack() as unless_started, theirs:
            unless_started.enter_context(ours)
            place = Place(
                number,
                self._identity,
                self._number,
                self._folder,
                theirs.fileno(),
                tuple(each.fileno() for each in self._sockets),
                tuple(each.fileno() for each in self._wyoming_sockets),
                self._starts[number],
                dict(self._models),
                self._capacity,
                self._measured,
            )
            # Signals come from this process alone, also if a supervisor or a terminal sends them to all of them.
            own = (SOCKET_VARIABLE, WATCHDOG_VARIABLE, PID_VARIABLE)
            process = await asyncio.create_subprocess_exec(
                *self._launch(place),
                stdin=subprocess.DEVNULL,
                pass_fds=(place.dialogue, *place.sockets, *place.wyoming_sockets),
                env={name: value for name, value in os.environ.items() if name not in own},
                start_new_session=True,
            )
            unless_started.pop_all()
        running = _Running(place, process, await Dialogue.over(ours))
        running.conversation = asyncio.create_task(self._converse(running))
        return running

    async def _converse(self, running: _Running) -> None:
        def hear(what: str, message: JsonObject) -> None:
            running.heard_at, running.spoke = time.monotonic(), True
            if what == "ready":
                capacity = message["capacity"]
                if message["measured"] is True:
                    self._capacity, self._measured = capacity if isinstance(capacity, int) else None, True
                if not running.ready.done():
                    running.ready.set_result(None)
            elif what == "asking":
                self._on_asking()

        answers: Mapping[str, Answer] = {} if self._triton is None else self._triton.answers(running.place.identity)
        await running.dialogue.run(answers, hear)

    async def _watch(self) -> None:
        """Kill workers that hang, and bury those that could not be buried before."""
        is_well = True
        while True:
            before = time.monotonic()
            await asyncio.sleep(ALIVE_EVERY_S)
            self._kill_silent(before)
            try:
                self._bury()
                await self._join_past()
            except Exception as error:  # such as no thread that is left: nothing is lost, and the next turn may go well
                if is_well:
                    reason = str(error) or type(error).__name__
                    log.error("what workers said that have ended cannot be joined", reason=reason)
                is_well = False
            else:
                is_well = True

    def _kill_silent(self, before: float) -> None:
        """Kill the workers that have said nothing for too long. `before`: when this process looked last."""
        now = time.monotonic()
        for number, running in self._running.items():
            limit_s = SILENT_LIMIT_S if running.spoke else FIRST_WORD_LIMIT_S
            if now - before > 2 * ALIVE_EVERY_S:  # this process was stopped itself
                running.heard_at = now
            elif now - running.heard_at > limit_s:
                log.error("worker killed, because it does not answer", worker=number)
                with suppress(ProcessLookupError):
                    running.process.kill()

    def _kill_all(self) -> None:
        for running in self._running.values():
            with suppress(ProcessLookupError):
                running.process.kill()

    def _identities(self) -> set[int]:
        return {running.place.identity for running in self._running.values()}


def _end(status: int) -> str:
    """Say how a process ended."""
    if status >= 0:
        return f"ended with status {status}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-status).name}"
    return f"was killed by signal {-status}"


def _once(call: Callable[[], None]) -> Callable[[], None]:
    calls = [call]
    return lambda: calls.pop()() if calls else None
