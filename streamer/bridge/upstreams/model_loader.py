"""Loads models on demand: one load for all sessions that wait for it, within a bound on memory.

When a model needs memory, models without sessions are let go, the least recently used first. After a load that failed,
sessions are refused for a while, with the reason. All models are at the embedded Triton.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from streamer.base.codes import ErrorCode
from streamer.bridge.telemetry.logs import Failures, Log
from streamer.bridge.telemetry.metrics import FAILED, LOADED, LOADING, Metrics
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import LinkError
from streamer.bridge.upstreams.admission import Loading, Models, Refused
from streamer.bridge.upstreams.pool import LoadState, UpstreamPool

log = Log("streamer.bridge")

FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 300.0
LONGEST_REASON: Final = 200  # characters of an error that clients get
_BEFORE_ERROR: Final = "Internal: "  # Triton writes it before the error that the code of a model has raised
_IN_MEMORY: Final = (LoadState.LOADING, LoadState.LOADED)


@dataclass
class _Demand:
    """The use of one model, and its loads."""

    size: int
    last_use: int = 0
    waiters: set[object] = field(default_factory=set)
    done: asyncio.Future[None] | None = None  # the end of the load under way
    reason: str = ""  # why the last load failed
    pause_s: float = 0.0
    retry_at: float = 0.0


class ModelLoader:
    """Loads the models of a service until close() is called."""

    def __init__(self, models: Models, bound: MemoryBound, metrics: Metrics) -> None:
        self._pools: Mapping[str, UpstreamPool] = models.pools
        self._room = bound.room
        self._metrics = metrics
        self._failures: Failures = metrics.failures(LOADING)
        self._uses: Iterator[int] = count(1)
        self._demands = {name: _Demand(bound.sizes[name]) for name in models.names}
        self._loads: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # the tasks that let models go

    def ready(self, name: str) -> bool:
        """Return whether this model may be loaded, or is being loaded."""
        state = self._pools[name].state
        return state in (LoadState.UNLOADED, LoadState.LOADING, LoadState.LEAVING)

    def require(self, name: str, waiter: object) -> None:
        """Return if the model is loaded. Otherwise load it and raise Loading, or raise Refused if that fails."""
        pool, demand = self._pools[name], self._demands[name]
        if pool.state is LoadState.LOADED:
            demand.waiters.discard(waiter)
            return
        if demand.done is None:
            if pool.state is LoadState.FAILED and _now() < demand.retry_at:
                raise self._refusal(name)
            demand.done = self._begin(name)
        demand.waiters.add(waiter)
        raise Loading(demand.done)

    def forget(self, waiter: object) -> None:
        """Note that this waiter waits no more. This may be called again."""
        for demand in self._demands.values():
            demand.waiters.discard(waiter)

    def note_use(self, name: str) -> None:
        """Note that a session of this model has begun or ended."""
        self._demands[name].last_use = next(self._uses)

    async def close(self) -> None:
        """Cancel the loads under way."""
        tasks = [*self._loads, *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, name: str) -> asyncio.Future[None]:
        """Begin to load a model, after letting others go for it. Raise Refused if there is no room."""
        needed = self._demands[name].size
        others = self._loaded()
        names = models_to_let_go(others, needed, self._room)
        if names is None:
            busy = ", ".join(sorted(other.name for other in others if other.busy))
            raise Refused(
                ErrorCode.FULL,
                f"There is no memory for the model {name!r} while sessions use {busy}; try again when they have ended.",
            )
        for other in names:
            # Call let_go() at once, so that no session begins there any more.
            self._keep(self._leaving, self._let_go(other, self._pools[other].let_go(), name))
        log.info("model loading", name=name, model=self._pools[name].model, megabytes=round(needed / 1e6))
        done = asyncio.get_running_loop().create_future()
        # Wait for all models that are leaving, also for other newcomers, because they still have their memory.
        self._keep(self._loads, self._load(name, done, list(self._leaving)))
        return done

    def _loaded(self) -> list[LoadedModel]:
        """Return the models that have memory or will get it, with their present sizes."""
        models = []
        for name, pool in self._pools.items():
            demand = self._demands[name]
            if pool.state is LoadState.LOADED and (size := pool.memory) is not None:
                demand.size = size
            if demand.done is not None or pool.state in _IN_MEMORY:
                busy = bool(demand.done is not None or demand.waiters or pool.in_use)
                models.append(LoadedModel(name, demand.size, busy, demand.last_use))
        return models

    async def _load(self, name: str, done: asyncio.Future[None], leaving: Iterable[asyncio.Task[None]]) -> None:
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
            demand.pause_s, demand.last_use = 0.0, next(self._uses)
            self._metrics.model_loads.labels(LOADED).inc()
            self._metrics.model_load_seconds.observe(seconds)
            log.info("model ready", name=name, model=pool.model, seconds=round(seconds, 2))
        finally:
            demand.done = None
            if not done.done():
                done.set_result(None)

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
    busy: bool  # it has sessions, or some wait for it
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
