"""Gives slots to sessions, up to a limit, and knows the public models. Triton's own queue has no bound."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from streamer.base.codes import ErrorCode
from streamer.base.limits import DEFAULT_MODEL
from streamer.bridge.session.endings import RETRY_S
from streamer.bridge.states import States
from streamer.bridge.telemetry.metrics import Metrics
from streamer.bridge.upstreams.pool import LoadState, Reservation, UpstreamPool
from streamer.bridge.upstreams.reader_watch import ReaderWatch
from streamer.bridge.upstreams.supervision import Tritons
from streamer.bridge.workers.others import Alone, Counted, Others
from streamer.wire.dialects.dialect import Languages


class Refused(Exception):
    """A session gets no slot now. `code` is a word, and `message` a sentence for the client."""

    def __init__(self, code: ErrorCode, message: str, retry_s: int = RETRY_S) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_s = retry_s


class Loading(Exception):
    """The model is being loaded. When `done` is done, the session may try again."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        super().__init__()
        self.done = done


class Waiter(Protocol):
    """A session that asks for slots, and may have to wait until its model is loaded."""

    @property
    def caller(self) -> str:
        """A name of the key or address whose session this is. Callers take turns in loading models."""


class Loader(Protocol):
    """Loads models when sessions ask for them. `default` is always loaded."""

    def require(self, name: str, waiter: Waiter) -> None:
        """Return if the model is loaded. Otherwise load it and raise Loading, or raise Refused if that fails."""

    def forget(self, waiter: Waiter) -> None:
        """Note that this waiter waits no more. This may be called again."""

    def note_use(self, name: str) -> None:
        """Note that a session of this model has begun or ended."""


class AdmissionState(Enum):
    """Whether slots are given out."""

    STARTING = "starting"  # not yet, because the recogniser is not ready
    OPEN = "open"
    CLOSED = "closed"  # not any more, because the service is shutting down


_ALL = ""  # the slots of all models together: no public name is empty
TRANSITIONS: Mapping[AdmissionState, tuple[AdmissionState, ...]] = {
    AdmissionState.STARTING: (AdmissionState.OPEN, AdmissionState.CLOSED),
    AdmissionState.OPEN: (AdmissionState.CLOSED,),
    AdmissionState.CLOSED: (),
}


class Admission:
    """Gives out a limited number of slots; none before `open`, and none after `close`."""

    def __init__(self, metrics: Metrics, others: Others | None = None) -> None:
        """`others`: the other workers, whose sessions count as well."""
        self._others = others or Alone()
        self._states = States("admission", AdmissionState.STARTING, TRANSITIONS)
        self._metrics = metrics
        self._models: Models | None = None
        self._loader: Loader | None = None
        self._limit: int | None = None
        self._share: float | None = None  # the part of the default model's slots that may be held, if that was measured
        self._in_use = 0
        self._sessions = 0
        self._of_models: Counter[str] = Counter()  # slots by public name

    @property
    def ready(self) -> bool:
        """Whether the default model could serve a new session, if there is a free slot."""
        if self._states.now is not AdmissionState.OPEN or self._models is None:
            return False
        return self._models.default.ready

    @property
    def most(self) -> int:
        """The most slots that may be held, of all models together."""
        if self._models is None:
            return 0
        return self._bound(sum(pool.most for pool in self._models.pools.values()), self._models.default.most)

    @property
    def in_use(self) -> int:
        """The number of slots in use, by all workers together."""
        return self._in_use + self._others.count(Counted.SLOTS, _ALL, self.most)

    @property
    def sessions(self) -> int:
        """The number of sessions that hold slots. A session may hold several, one for each channel."""
        return self._sessions + self._others.count(Counted.SESSIONS, _ALL, 0)

    def open(
        self, models: Models, limit: int | None = None, *, capacity: int | None = None, loader: Loader | None = None
    ) -> None:
        """Open, now that the recogniser is ready. The limit is the number of its slots, or `limit`, or `capacity`.

        `capacity` was measured with the default model at the Tritons that are well now. It grows and shrinks with them.
        `loader`: loads models on demand.
        """
        self._states.become(AdmissionState.OPEN)
        self._models, self._limit, self._loader = models, limit, loader
        if capacity is not None:
            self._share = min(1.0, capacity / max(1, models.default.room))
        self._metrics.sessions_limit.set_function(lambda: self.most)
        self._metrics.ready.set_function(lambda: self.ready)

    def close(self) -> None:
        """Give out no more slots. This may be called again."""
        if self._states.now is not AdmissionState.CLOSED:
            self._states.become(AdmissionState.CLOSED)

    def held_by_others(self, name: str) -> int:
        """Return how many slots of this model other workers hold."""
        return self._others.count(Counted.SLOTS, name, 0)

    def check(self, number: int = 1) -> None:
        """Raise Refused if a session with this number of slots would not be admitted now. Take no slots."""
        if self._states.now is AdmissionState.CLOSED:
            raise Refused(ErrorCode.SHUTTING_DOWN, "The service is shutting down; try again later.")
        if not self.ready:
            raise Refused(ErrorCode.NOT_READY, "The recogniser is not ready; try again in a few seconds.")
        if self._loader is not None and self._limit is None:
            return  # another model may have room, and may have to be loaded first
        if self.in_use + number > self.most:
            raise Refused(ErrorCode.FULL, f"{_all_taken(self.most)}; try again when one has ended.")

    def take(
        self, options: Mapping[str, Any], number: int = 1, name: str = DEFAULT_MODEL, waiter: Waiter | None = None
    ) -> list[Reservation]:
        """Take all slots of a session, at the model with this public name. Raise Refused if there are too few.

        Raise Loading if the model must be loaded first. Then `waiter` may try again, and must call forget() at the end.
        The caller must give the slots back at the end.
        """
        if self._states.now is AdmissionState.CLOSED:
            raise Refused(ErrorCode.SHUTTING_DOWN, "The service is shutting down; try again later.")
        with self._others.exclusive():
            return self._take(options, number, name, waiter)

    def _take(self, options: Mapping[str, Any], number: int, name: str, waiter: Waiter | None) -> list[Reservation]:
        pool = None if self._models is None else self._models.pools[name]
        if self._loader is not None and waiter is not None:
            self._check_limit(number)
            self._loader.require(name, waiter)
        if self._models is None or pool is None or not pool.well:
            subject = "recogniser" if name == DEFAULT_MODEL else f"model {name!r}"
            raise Refused(ErrorCode.NOT_READY, f"The {subject} is not ready; try again in a few seconds.")
        most = self.most
        # A session that lost its slot because a Triton failed gets a new one before new sessions do.
        pools = self._models.pools.values()
        room = self._bound(sum(each.room for each in pools), self._models.default.room)
        available = min(most, room) - self.in_use
        free = max(0, min(available, pool.free - self._others.count(Counted.SLOTS, name, pool.most)))
        if not free and available > 0:
            raise Refused(
                ErrorCode.FULL, f"All sessions of the model {name!r} are taken; try again when one has ended."
            )
        if not free:
            raise Refused(ErrorCode.FULL, f"{_all_taken(most)}; try again when one has ended.")
        if number > free:
            raise Refused(
                ErrorCode.FULL,
                f"{number} channels need {number} sessions, but only {free} of {most} are free; "
                "try again when others have ended, or with fewer channels.",
            )
        self._count(number, 1, name)
        reservations = [pool.reserve(options) for _ in range(number)]
        self._note_use(name)  # afterwards, because a model without sessions may be let go at once
        return [reservation for reservation in reservations if reservation is not None]

    def forget(self, waiter: Waiter) -> None:
        """Note that a session waits for no model any more."""
        if self._loader is not None:
            self._loader.forget(waiter)

    def give_back(self, reservations: Iterable[Reservation], name: str = DEFAULT_MODEL) -> None:
        """Give back the slots of a session of this model."""
        number = 0
        for reservation in reservations:
            reservation.release()
            number += 1
        self._count(-number, -1, name)
        self._note_use(name)

    def _check_limit(self, number: int) -> None:
        """Raise Refused if the limit would be passed. This comes first, so that no model is loaded in vain."""
        if self._limit is not None and self.in_use + number > self._limit:
            raise Refused(ErrorCode.FULL, f"{_all_taken(self._limit)}; try again when one has ended.")

    def _note_use(self, name: str) -> None:
        if self._loader is not None:
            self._loader.note_use(name)

    def _bound(self, slots: int, of_default: int) -> int:
        """Return how many of these slots may be held. `of_default`: how many of them are the default model's."""
        capacity = slots if self._share is None else max(min(1, of_default), round(self._share * of_default))
        return min(slots, capacity) if self._limit is None else min(slots, capacity, self._limit)

    def _count(self, slots: int, sessions: int, name: str) -> None:
        self._in_use += slots
        self._sessions += sessions
        self._of_models[name] += slots
        self._others.note(Counted.SLOTS, _ALL, self._in_use)
        self._others.note(Counted.SLOTS, name, self._of_models[name])
        self._others.note(Counted.SESSIONS, _ALL, self._sessions)
        self._metrics.sequences.set(self._in_use)
        self._metrics.sessions.set(self._sessions)


def _all_taken(most: int) -> str:
    return "The only session is taken" if most == 1 else f"All {most} sessions are taken"


# The public models of a service. Clients use their names. Each name stands for a Triton model, which may change.


class Models:
    """All models. open() waits until each of them answers at one Triton. They are kept well until close()."""

    def __init__(self, tritons: Tritons, models: Mapping[str, str], *, on_demand: bool = False) -> None:
        """`models`: the Triton model for each public name, including `default`.

        `on_demand`: open only `default`. A ModelLoader opens the others when sessions ask for them.
        """
        self._tritons = tritons
        # Only one task at a time may change the set of Tritons or models.
        self._changing = asyncio.Lock()
        self._pools = {
            name: UpstreamPool(name, model, tritons, lambda: self._pools.values(), self._changing)
            for name, model in models.items()
        }
        self._on_demand = on_demand
        self._following: list[asyncio.Task[None]] = []
        self._readers = ReaderWatch(tritons)

    @property
    def names(self) -> tuple[str, ...]:
        """The public names. They do not change while the service runs."""
        return tuple(self._pools)

    @property
    def languages(self) -> Mapping[str, Languages]:
        """The languages of each model, by public name."""
        return {name: pool.languages for name, pool in self._pools.items()}

    @property
    def pools(self) -> Mapping[str, UpstreamPool]:
        """The pools by public name."""
        return self._pools

    @property
    def default(self) -> UpstreamPool:
        """The pool for sessions that do not name a model."""
        return self._pools[DEFAULT_MODEL]

    @property
    def tritons(self) -> int:
        """The number of Tritons."""
        return len(self._tritons.present)

    @property
    def tritons_ready(self) -> int:
        """The number of Tritons that serve every loaded model in every instance."""
        loaded = [pool for pool in self._pools.values() if not self._on_demand or pool.state is LoadState.LOADED]
        return len(set(self._tritons.present).intersection(*(pool.ready_upstreams for pool in loaded)))

    @property
    def readers_ready(self) -> int:
        """The number of Tritons that have a reader, which answered a moment ago."""
        return self._readers.ready

    async def open(self) -> None:
        """Wait until each model is well at one Triton. Raise LinkError or TritonError if that fails."""
        await self._tritons.find()
        for pool in [self.default] if self._on_demand else self._pools.values():
            await pool.open()
        self._following = [
            asyncio.create_task(self._tritons.follow(self._follow)),
            asyncio.create_task(self._readers.follow()),
        ]

    async def close(self) -> None:
        """Leave all Tritons, and stop embedded ones."""
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
        await self._tritons.end()

    async def cut_off(self) -> None:
        """Kill embedded Tritons at once, so that close() need not wait for them."""
        await self._tritons.cut_off()

    def states(self) -> dict[str, int]:
        """Return how many models are in each state of loading."""
        return {state.value: sum(pool.state is state for pool in self._pools.values()) for state in LoadState}

    def state(self, held_by_others: Callable[[str], int] = lambda _: 0) -> dict[str, object]:
        """Return what /readyz reports for each model. `held_by_others`: how many slots other workers hold of it."""
        return {
            name: {"model": pool.model, "state": pool.state.value, "ready": pool.ready}
            | {"sequences": {**pool.held, pool.model: pool.held[pool.model] + held_by_others(name)}}
            | ({"languages": pool.languages} if pool.languages else {})
            for name, pool in self._pools.items()
        }

    async def _follow(self) -> None:
        async with self._changing:
            for pool in self._pools.values():
                pool.follow()
