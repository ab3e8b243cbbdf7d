"""Loads models on demand: one load for all sessions that wait for it, within a bound on memory.

`default` is loaded at the start and stays. When another model needs memory, models without sessions are let go, the
least recently used first, but none that was loaded a moment ago. If there is no memory yet, callers take turns: while
it is the turn of one, others load nothing, and begin no sessions at the models whose memory it needs. So a caller who
comes again and again does not keep out another one. After a load that failed, sessions are refused for a while, with
the reason. All models are at the embedded Triton.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from streamer.base.codes import ErrorCode
from streamer.base.limits import DEFAULT_MODEL, LOAD_LIMIT_S
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.telemetry.metrics import FAILED, LOADED, LOADING, Metrics
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import LinkError
from streamer.bridge.upstreams.admission import Loading, Models, Refused, Waiter
from streamer.bridge.upstreams.pool import LoadState, UpstreamPool

log = Log("streamer.bridge")

FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 300.0
LONGEST_REASON: Final = 200  # characters of an error that clients get
# How long a model stays after its load, so that those who waited for it use it, and loads do not follow each other.
STAY_S: Final = 5.0
# How long others do not begin sessions at models whose memory a caller needs, and load nothing, when it is its turn.
TURN_S: Final = 6.0
# How long a session waits for memory. The session itself ends its wait later, without knowing what was missing.
PATIENCE_S: Final = LOAD_LIMIT_S - 2
MEASURED_S: Final = 1.0  # how long the measured memory of a model counts
# The most sessions of one caller that wait for memory: they must not take all places of connections without a session.
MOST_WAITING: Final = 16
MOST_CALLERS: Final = 1000  # whose last turns are remembered
_BEFORE_ERROR: Final = "Internal: "  # Triton writes it before the error that the code of a model has raised
_IN_MEMORY: Final = (LoadState.LOADING, LoadState.LOADED)


@dataclass
class _Demand:
    """The use of one model, and its loads."""

    size: int
    last_use: int = 0
    waiting: dict[Waiter, _Wait] = field(default_factory=dict)
    loading: bool = False
    stays_until: float = 0.0
    measure_at: float = 0.0
    reason: str = ""  # why the last load failed
    pause_s: float = 0.0
    retry_at: float = 0.0


@dataclass
class _Wait:
    """The wait of one session. `done`: it may ask again."""

    done: asyncio.Future[None]
    until: float
    admitted: bool = False  # the model was loaded for it, or it is its turn

    def end(self) -> None:
        """Let the session ask again."""
        if not self.done.done():
            self.done.set_result(None)


class ModelLoader:
    """Loads the models of a service until close() is called. `default` must be loaded already."""

    def __init__(self, models: Models, bound: MemoryBound, metrics: Metrics) -> None:
        self._pools: Mapping[str, UpstreamPool] = models.pools
        self._room = bound.room
        self._metrics = metrics
        self._failures: Failures = metrics.failures(LOADING)
        self._uses: Iterator[int] = count(1)
        self._demands = {name: _Demand(bound.sizes[name]) for name in models.names}
        self._turns = Turns()
        self._wanted: frozenset[str] = frozenset()  # models that get no new sessions, because others need their memory
        self._closed = False
        self._waking: asyncio.TimerHandle | None = None
        self._loads: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # the tasks that let models go

    def require(self, name: str, waiter: Waiter) -> None:
        """Return if the model is loaded. Otherwise load it and raise Loading, or raise Refused if that fails.

        Also of a model that is loaded, new sessions wait while it is another caller's turn to have its memory.
        """
        pool, demand, now = self._pools[name], self._demands[name], _now()
        wait = demand.waiting.get(waiter)
        if wait is None and pool.state is LoadState.LOADED and name not in self._wanted:
            return
        if pool.state is LoadState.FAILED and not demand.loading and now < demand.retry_at:
            raise self._refusal(name)
        if wait is None:
            wait = demand.waiting[waiter] = _Wait(asyncio.get_running_loop().create_future(), now + PATIENCE_S)
            if not demand.loading:
                self._turns.join(name, waiter.caller)
                self._advance()
                if not wait.done.done() and self._waiting(waiter.caller) > MOST_WAITING:
                    self.forget(waiter)
                    raise self._no_memory(name)
        if wait.admitted and pool.state is LoadState.LOADED:
            del demand.waiting[waiter]
            return
        if wait.done.done() and not demand.loading:
            self.forget(waiter)
            raise self._no_memory(name)
        raise Loading(wait.done)

    def forget(self, waiter: Waiter) -> None:
        """Note that this waiter waits no more. This may be called again."""
        for name, demand in self._demands.items():
            if demand.waiting.pop(waiter, None) is not None:
                self._turns.leave(name, {other.caller for other in demand.waiting})
                self._advance()

    def note_use(self, name: str) -> None:
        """Note that a session of this model has begun or ended."""
        self._demands[name].last_use = next(self._uses)
        self._advance()

    async def close(self) -> None:
        """Cancel the loads under way."""
        self._closed = True
        if self._waking is not None:
            self._waking.cancel()
        tasks = [*self._loads, *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _advance(self) -> None:
        """Begin the loads for which there is memory, in the order of turns, and end the waits that took too long."""
        if self._closed:
            return
        now = _now()
        for demand in self._demands.values():
            for wait in demand.waiting.values():
                if now >= wait.until and not demand.loading:
                    wait.end()  # it asks again, and is refused
        self._wanted = frozenset()
        while (name := self._turns.first(now)) is not None:
            if self._pools[name].state is LoadState.LOADED:
                self._admit(name)
            elif not self._begin(name):
                self._wanted = frozenset(self._models_to_empty(name))
                break
            self._turns.take(name)
        self._advance_later(now)

    def _advance_later(self, now: float) -> None:
        """Advance again when the next wait, turn or stay is over, if anybody waits for that."""
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        demands = self._demands.values()
        waits = [wait.until for each in demands for wait in each.waiting.values() if not wait.done.done()]
        ends = [*waits, *(demand.stays_until for demand in demands), self._turns.end or 0.0] if waits else []
        if (next_end := min((end for end in ends if end > now), default=None)) is not None:
            self._waking = asyncio.get_running_loop().call_later(next_end - now, self._advance)

    def _admit(self, name: str) -> None:
        """Let those that wait for this model begin their sessions."""
        for wait in self._demands[name].waiting.values():
            wait.admitted = True
            wait.end()

    def _waiting(self, caller: str) -> int:
        """Return how many sessions of this caller wait for memory."""
        waiting = (demand.waiting.items() for demand in self._demands.values() if not demand.loading)
        return sum(waiter.caller == caller and not wait.done.done() for waits in waiting for waiter, wait in waits)

    def _models_to_empty(self, name: str) -> list[str]:
        """Return the models that must go for this one, as soon as their sessions have ended: they get no new ones."""
        models = [model for model in self._loaded() if not self._demands[model.name].loading]
        models = [model for model in models if self._demands[model.name].stays_until <= _now()]
        excess = self._excess(name)
        names = []
        for model in sorted(models, key=lambda model: (model.busy, model.last_use)):
            if excess > 0:
                names.append(model.name)
                excess -= model.size
        return names

    def _begin(self, name: str) -> bool:
        """Begin to load a model, after letting others go for it. Return whether there was room."""
        needed = self._demands[name].size
        names = models_to_let_go(self._loaded(), needed, self._room_beside_default)
        if names is None:
            return False
        self._demands[name].loading = True
        for other in names:
            # Call let_go() at once, so that no session begins there any more.
            self._keep(self._leaving, self._let_go(other, self._pools[other].let_go(), name))
        log.info("model loading", name=name, model=self._pools[name].model, megabytes=round(needed / 1e6))
        # Wait for all models that are leaving, also for other newcomers, because they still have their memory.
        self._keep(self._loads, self._load(name, list(self._leaving)))
        return True

    @property
    def _room_beside_default(self) -> int:
        return max(0, self._room - self._size(DEFAULT_MODEL))

    def _excess(self, name: str) -> int:
        """Return how many bytes other models must give up for this one."""
        room = self._room_beside_default
        return sum(model.size for model in self._loaded()) + min(self._size(name), room) - room

    def _size(self, name: str) -> int:
        """Return the bytes of a model: measured if it is loaded, or else as before."""
        pool, demand, now = self._pools[name], self._demands[name], _now()
        if pool.state is LoadState.LOADED and now >= demand.measure_at:
            demand.size, demand.measure_at = pool.memory or demand.size, now + MEASURED_S
        return demand.size

    def _loaded(self) -> list[LoadedModel]:
        """Return the models beside `default` that have memory or will get it, with their present sizes."""
        models = []
        for name, pool in self._pools.items():
            demand = self._demands[name]
            if name != DEFAULT_MODEL and (demand.loading or pool.state in _IN_MEMORY):
                admitted = any(wait.admitted for wait in demand.waiting.values())
                busy = bool(demand.loading or admitted or pool.in_use or _now() < demand.stays_until)
                models.append(LoadedModel(name, self._size(name), busy, demand.last_use))
        return models

    async def _load(self, name: str, leaving: Iterable[asyncio.Task[None]]) -> None:
        """Load a model, and wake those that wait for it."""
        pool, demand = self._pools[name], self._demands[name]
        try:
            await asyncio.gather(*leaving, return_exceptions=True)
            began = time.monotonic()
            await pool.open()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._give_up(name, error)
        else:
            seconds = time.monotonic() - began
            demand.pause_s, demand.last_use, demand.stays_until = 0.0, next(self._uses), _now() + STAY_S
            self._metrics.model_loads.labels(LOADED).inc()
            self._metrics.model_load_seconds.observe(seconds)
            log.info("model ready", name=name, model=pool.model, seconds=round(seconds, 2))
        finally:
            demand.loading = False
            self._admit(name)
            self._advance()

    async def _give_up(self, name: str, error: Exception) -> None:
        pool, demand = self._pools[name], self._demands[name]
        if not isinstance(error, (LinkError, TritonError)):
            self._failures.report("loading failed", error)
        demand.pause_s = min(max(FIRST_PAUSE_S, 2 * demand.pause_s), LONGEST_PAUSE_S)
        demand.retry_at = _now() + demand.pause_s
        demand.reason = _short_reason(error)
        self._metrics.model_loads.labels(FAILED).inc()
        log.error("model not loaded", name=name, model=pool.model, detail=str(error), again_s=demand.pause_s)
        await pool.give_up()

    async def _let_go(self, name: str, gone: asyncio.Task[None], newcomer: str) -> None:
        """Wait until a model is unloaded for another one."""
        try:
            await gone
        except Exception as error:
            self._failures.report("letting a model go failed", error)
        else:
            self._metrics.models_let_go.inc()
            log.info("model let go", name=name, newcomer=newcomer)

    def _no_memory(self, name: str) -> Refused:
        busy = ", ".join(sorted(each for each, pool in self._pools.items() if pool.in_use and each != DEFAULT_MODEL))
        while_ = f"while sessions use {busy}; try again when they have ended" if busy else "now; try again later"
        return Refused(ErrorCode.FULL, f"There is no memory for the model {name!r} {while_}.")

    def _refusal(self, name: str) -> Refused:
        demand = self._demands[name]
        retry_s = max(1, math.ceil(demand.retry_at - _now()))
        why = f"The model {name!r} could not be loaded ({demand.reason}); it will be tried again after {retry_s} s."
        return Refused(ErrorCode.NOT_READY, why, retry_s)

    def _keep(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _now() -> float:
    return time.monotonic()


def _short_reason(error: Exception) -> str:
    """Return a reason for clients. The log has the whole error, which may name paths of this machine."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.rpartition(_BEFORE_ERROR)[2].strip()[:LONGEST_REASON]


# Whose turn it is to have a model loaded.


@dataclass
class _Place:
    """A model that these callers wait for. `joined`: a number that grows."""

    callers: set[str]
    joined: int


class Turns:
    """The models that callers wait for. It is the turn of the caller whose last turn is longest ago.

    A turn ends when the model is loaded, or after TURN_S, because a caller might ask for what never has room.
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._turn: tuple[str, float] | None = None  # the model whose turn it is, and the end of the turn
        self._last: OrderedDict[str, int] = OrderedDict()  # the number of the last turn of each caller
        self._numbers = count(1)

    @property
    def end(self) -> float | None:
        """When the present turn ends; None if there is none."""
        return None if self._turn is None else self._turn[1]

    def join(self, model: str, caller: str) -> None:
        """Let a caller wait for a model, perhaps with others."""
        place = self._places.setdefault(model, _Place(set(), next(self._numbers)))
        place.callers.add(caller)

    def leave(self, model: str, others: Collection[str]) -> None:
        """Let a caller wait for this model no more. Only these others do."""
        if (place := self._places.get(model)) is not None:
            place.callers &= set(others)
            if not place.callers:
                self._drop(model)

    def first(self, now: float) -> str | None:
        """Return the model whose turn it is; None if nobody waits."""
        while self._places:
            model = min(self._places, key=self._order)
            if self._turn is None or self._turn[0] != model:
                self._turn = model, now + TURN_S
            if now < self._turn[1]:
                return model
            self._turn = None
            self._places[model].joined = next(self._numbers)  # behind others of the same caller, too
            self._note_turn(self._places[model])
        return None

    def take(self, model: str) -> None:
        """Note that those who wait for this model have had their turn."""
        self._note_turn(self._drop(model))

    def _drop(self, model: str) -> _Place:
        if self._turn is not None and self._turn[0] == model:
            self._turn = None
        return self._places.pop(model)

    def _order(self, model: str) -> tuple[int, int]:
        place = self._places[model]
        return min(self._last.get(caller, 0) for caller in place.callers), place.joined

    def _note_turn(self, place: _Place) -> None:
        for caller in place.callers:
            self._last[caller] = next(self._numbers)
            self._last.move_to_end(caller)
        while len(self._last) > MOST_CALLERS:
            self._last.popitem(last=False)


# Chooses the models to unload so that another one has room.


@dataclass(frozen=True)
class MemoryBound:
    """The memory for all models together, and the approximate size of each by its public name, in bytes."""

    room: int
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class LoadedModel:
    """A model that is loaded, or is being loaded."""

    name: str
    size: int  # bytes
    busy: bool  # it has sessions, some wait for it, or it was loaded a moment ago
    last_use: int  # a number that grows with each use of any model


def models_to_let_go(loaded: Iterable[LoadedModel], needed: int, room: int) -> list[str] | None:
    """Return the names of models to let go, the least recently used ones first, so that `needed` bytes have room.

    `room` is for all models together. Return None if the busy ones leave too little. A model that needs more than
    `room` may have all of it: it was smaller when its size was checked.
    """
    loaded = list(loaded)
    excess = sum(model.size for model in loaded) + min(needed, room) - room
    names = []
    for model in sorted(loaded, key=lambda model: model.last_use):
        if excess > 0 and not model.busy:
            names.append(model.name)
            excess -= model.size
    return names if excess <= 0 else None
