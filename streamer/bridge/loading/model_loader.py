"""Loads models on demand: one load for all sessions that wait for it, within a bound on memory.

A model that no session uses is let go when another one needs its memory, the least recently used first. After a load
that failed there is a pause, in which sessions are refused with the reason. All models are at the embedded Triton.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from streamer.bridge.loading.choice import LoadedModel, MemoryBound, models_to_let_go
from streamer.bridge.telemetry.failures import Failures
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.telemetry.metrics import FAILED, LOADED, LOADING, Metrics
from streamer.bridge.upstreams.admission import Loading, Refused
from streamer.bridge.upstreams.models import Models
from streamer.bridge.upstreams.pool import LoadState, UpstreamPool
from streamer.triton import TritonError
from streamer.triton.link import LinkError

log = Log("streamer.bridge")

FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 300.0
LONGEST_REASON: Final = 200  # characters of an error that clients get
_WHERE: Final = "Internal: "  # Triton writes it between the state of a model and what its code has raised
_HELD: Final = (LoadState.LOADING, LoadState.LOADED)


@dataclass
class _Demand:
    """What is known of one model beside its pool."""

    size: int
    used: int = 0
    waiters: set[object] = field(default_factory=set)
    done: asyncio.Future[None] | None = None  # of the load under way
    reason: str = ""  # why the last load failed
    pause_s: float = 0.0
    again_at: float = 0.0


class ModelLoader:
    """Loads the models of a service from entry of their service to close()."""

    def __init__(self, models: Models, bound: MemoryBound, metrics: Metrics) -> None:
        self._pools: Mapping[str, UpstreamPool] = models.pools
        self._room = bound.room
        self._metrics = metrics
        self._failures: Failures = metrics.failures(LOADING)
        self._uses: Iterator[int] = count(1)
        self._demands = {name: _Demand(bound.sizes[name]) for name in models.names}
        self._loads: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()  # those of models that are let go

    def ready(self, name: str) -> bool:
        """Return whether this model may be loaded, or is being loaded."""
        state = self._pools[name].state
        return state in (LoadState.UNLOADED, LoadState.LOADING, LoadState.LEAVING)

    def require(self, name: str, waiter: object) -> None:
        """Return if the model is loaded. Loading if it is being loaded now, also for this waiter; Refused if not."""
        pool, demand = self._pools[name], self._demands[name]
        if pool.state is LoadState.LOADED:
            demand.waiters.discard(waiter)
            return
        if demand.done is None:
            if pool.state is LoadState.FAILED and _now() < demand.again_at:
                raise self._refusal(name)
            demand.done = self._begin(name)
        demand.waiters.add(waiter)
        raise Loading(demand.done)

    def forget(self, waiter: object) -> None:
        """Note that it waits no more. It may be called again."""
        for demand in self._demands.values():
            demand.waiters.discard(waiter)

    def note_use(self, name: str) -> None:
        """Note that a session of this model has begun or ended."""
        self._demands[name].used = next(self._uses)

    async def close(self) -> None:
        """End what is under way."""
        tasks = [*self._loads, *self._leaving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, name: str) -> asyncio.Future[None]:
        """Begin to load a model, after those that must go for it. Refused if there is no room."""
        needed = self._demands[name].size
        others = self._loaded()
        chosen = models_to_let_go(others, needed, self._room)
        if chosen is None:
            busy = ", ".join(sorted(other.name for other in others if other.busy))
            raise Refused(
                "full",
                f"There is no memory for the model {name!r} while sessions use {busy}; try again when they have ended.",
            )
        for other in chosen:
            # At once, so that no session begins there any more.
            self._keep(self._leaving, self._let_go(other, self._pools[other].let_go(), name))
        log.info("model loading", name=name, model=self._pools[name].model, megabytes=round(needed / 1e6))
        done = asyncio.get_running_loop().create_future()
        # A model that is still leaving has its memory until it is gone, whoever it goes for.
        self._keep(self._loads, self._bring(name, done, list(self._leaving)))
        return done

    def _loaded(self) -> list[LoadedModel]:
        """The models that have memory or were promised some, as large as they are now."""
        found = []
        for name, pool in self._pools.items():
            demand = self._demands[name]
            if pool.state is LoadState.LOADED and (size := pool.memory) is not None:
                demand.size = size
            if demand.done is not None or pool.state in _HELD:
                busy = bool(demand.done is not None or demand.waiters or pool.taken)
                found.append(LoadedModel(name, demand.size, busy, demand.used))
        return found

    async def _bring(self, name: str, done: asyncio.Future[None], leaving: Iterable[asyncio.Task[None]]) -> None:
        """Load a model, and tell those that wait."""
        pool, demand = self._pools[name], self._demands[name]
        try:
            await asyncio.gather(*leaving, return_exceptions=True)
            began = time.monotonic()
            await pool.open()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await self._failed(name, error)
        else:
            seconds = time.monotonic() - began
            demand.pause_s, demand.used = 0.0, next(self._uses)
            self._metrics.model_loads.labels(LOADED).inc()
            self._metrics.model_load_seconds.observe(seconds)
            log.info("model ready", name=name, model=pool.model, seconds=round(seconds, 2))
        finally:
            demand.done = None
            if not done.done():
                done.set_result(None)

    async def _failed(self, name: str, error: Exception) -> None:
        pool, demand = self._pools[name], self._demands[name]
        if not isinstance(error, (LinkError, TritonError)):
            self._failures.report("loading failed", error)
        demand.pause_s = min(max(FIRST_PAUSE_S, 2 * demand.pause_s), LONGEST_PAUSE_S)
        demand.again_at = _now() + demand.pause_s
        demand.reason = _short(error)
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
        again_s = max(1, math.ceil(demand.again_at - _now()))
        why = f"The model {name!r} could not be loaded ({demand.reason}); it will be tried again after {again_s} s."
        return Refused("not_ready", why, again_s)

    def _keep(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def _now() -> float:
    return time.monotonic()


def _short(error: Exception) -> str:
    """What went wrong, for clients. The log has all of it, with paths of this machine."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return first.rpartition(_WHERE)[2].strip()[:LONGEST_REASON]
