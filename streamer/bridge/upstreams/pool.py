"""The upstreams of one public model, and the slots that streams hold there. A new stream goes to the least loaded.

A public name stands for a Triton model, which may be replaced while sessions run (a roll). The upstreams of the former
model then *retire*. So does an upstream whose Triton is no longer present. A retiring upstream gets no new streams. Its
streams move to others as soon as they can. When it has none left, it is dropped.

If models are loaded on demand (../loading/), a pool is opened when a session needs its model, and may be let go later.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any, Final

from streamer.base.codes import FailureCode
from streamer.base.events import ModelEvent
from streamer.base.limits import RETIRE_LIMIT_S
from streamer.bridge.session.backlog import BYTES_PER_S
from streamer.bridge.states import States
from streamer.bridge.telemetry.logs import Log
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.link import ConnectionLost, LinkError, Overdue
from streamer.bridge.upstreams.instances import begin_at_living, instance_of
from streamer.bridge.upstreams.probe import PREPARING_S
from streamer.bridge.upstreams.supervision import Supervisor, Tritons
from streamer.bridge.upstreams.upstream import Upstream

log = Log("streamer.bridge")
CANCEL_AGAIN_S: Final = 1.0
# The longest wait until other bridges do not use a model any more.
UNUSED_LIMIT_S: Final = 600.0


class ModelOrigin(Enum):
    """How the model of a pool came to its Tritons."""

    GIVEN = "given"  # the operator named it, so a Triton that runs elsewhere has it from its start
    ROLLED = "rolled"  # it replaced another model, so any Triton without it must load it


TRANSITIONS: Mapping[ModelOrigin, tuple[ModelOrigin, ...]] = {
    ModelOrigin.GIVEN: (ModelOrigin.ROLLED,),
    ModelOrigin.ROLLED: (),
}


class LoadState(Enum):
    """Whether the model of a pool is loaded."""

    UNLOADED = "unloaded"  # not now; it may be loaded
    LOADING = "loading"  # it is being loaded and tested
    LOADED = "loaded"
    LEAVING = "leaving"  # it is being unloaded, because another model needs its memory
    FAILED = "failed"  # the last attempt to load it failed


LOAD_TRANSITIONS: Mapping[LoadState, tuple[LoadState, ...]] = {
    LoadState.UNLOADED: (LoadState.LOADING,),
    LoadState.LOADING: (LoadState.LOADED, LoadState.FAILED),
    LoadState.LOADED: (LoadState.LEAVING,),
    LoadState.LEAVING: (LoadState.UNLOADED,),
    LoadState.FAILED: (LoadState.LOADING,),
}


class UpstreamPool:
    """The upstreams of one public model. open() waits until one answers. It is kept well until close()."""

    def __init__(
        self,
        name: str,
        model: str,
        tritons: Tritons,
        peers: Callable[[], Iterable[UpstreamPool]],
        changing: asyncio.Lock,
    ) -> None:
        """`peers` returns the pools of all names. They share the lock `changing`, for changes of Tritons or models."""
        self.name = name
        self.model = model  # of new streams
        self._tritons = tritons
        self._peers = peers
        self._load = States("load", LoadState.UNLOADED, LOAD_TRANSITIONS, name=name)
        self._most_before = 0  # the number of slots when it was let go
        self._languages_before: tuple[str, ...] | None = None  # its languages at that time
        self._origin = States("model", ModelOrigin.GIVEN, TRANSITIONS, name=name)
        self._upstreams: dict[Supervisor, Upstream] = {}
        self._retiring: dict[Upstream, asyncio.Task[str]] = {}
        self._keeping: dict[Upstream, asyncio.Task[None]] = {}
        self._changing = changing

    @property
    def state(self) -> LoadState:
        """Whether its model is loaded."""
        return self._load.now

    @property
    def ready(self) -> bool:
        """Whether an upstream passed its probes a moment ago."""
        return any(upstream.ready for upstream in self._present)

    @property
    def well(self) -> bool:
        """Whether an upstream is well, so that it may have a slot."""
        return any(upstream.well for upstream in self._present)

    @property
    def whole(self) -> bool:
        """Whether an upstream is well, with all of its instances."""
        return any(upstream.well and not upstream.has_dead_instances for upstream in self._present)

    @property
    def most(self) -> int:
        """The number of slots if all upstreams are well. An unloaded model has the number that it had before."""
        return sum(upstream.most for upstream in self._present) or self._most_before

    @property
    def languages(self) -> tuple[str, ...] | None:
        """The languages from which a session may choose; None if the model was not loaded yet."""
        present = (upstream.languages for upstream in self._present)
        return next((languages for languages in present if languages is not None), self._languages_before)

    @property
    def room(self) -> int:
        """The number of slots at the upstreams that are well."""
        return sum(upstream.most for upstream in self._present if upstream.well)

    @property
    def free(self) -> int:
        """The number of slots that are free now."""
        return sum(max(0, upstream.most - upstream.in_use) for upstream in self._present if upstream.well)

    @property
    def ready_upstreams(self) -> set[Supervisor]:
        """The Tritons where every instance of the model passed a probe a moment ago."""
        return {
            supervisor
            for supervisor, upstream in self._upstreams.items()
            if upstream.ready and not upstream.has_dead_instances
        }

    @property
    def held(self) -> dict[str, int]:
        """The number of slots that are held at each Triton model that serves this name now."""
        held = {self.model: 0}
        for upstream in (*self._present, *self._retiring):
            held[upstream.model] = held.get(upstream.model, 0) + upstream.in_use
        return held

    @property
    def in_use(self) -> int:
        """The number of slots in use, also at upstreams that retire."""
        return sum(upstream.in_use for upstream in (*self._present, *self._retiring))

    @property
    def memory(self) -> int | None:
        """The bytes that its processes at an embedded Triton hold; None if that is not known."""
        sizes = [upstream.supervisor.memory(upstream.model) for upstream in (*self._present, *self._retiring)]
        return sum(size for size in sizes if size is not None) or None

    async def open(self) -> None:
        """Try to open all upstreams. If none is well, raise the LinkError or TritonError of the first."""
        self._load.become(LoadState.LOADING)
        try:
            await self._open()
        except BaseException:
            self._load.become(LoadState.FAILED)
            raise
        self._load.become(LoadState.LOADED)

    def let_go(self) -> asyncio.Task[None]:
        """Begin to unload the model, which must have no streams, and gets none from now on. The task does the rest."""
        self._load.become(LoadState.LEAVING)
        self._most_before, self._languages_before = self.most, self.languages
        upstreams, self._upstreams = self._present, {}
        leaving = [self._retire(upstream, 0.0, unload=True) for upstream in upstreams]

        async def gone() -> None:
            try:
                await asyncio.gather(*leaving)
            finally:
                self._load.become(LoadState.UNLOADED)

        return asyncio.create_task(gone())

    async def give_up(self) -> None:
        """Leave the upstreams after an open() that failed, and unload the model where it was loaded too late."""
        upstreams, self._upstreams = self._present, {}
        await asyncio.gather(*(upstream.close() for upstream in upstreams))
        with suppress(TritonError):
            await asyncio.gather(*(upstream.supervisor.unload(upstream.model) for upstream in upstreams))

    async def _open(self) -> None:
        self._upstreams = {triton: self._upstream(triton) for triton in self._tritons.present}
        results = await asyncio.gather(*(upstream.open() for upstream in self._present), return_exceptions=True)
        errors = [error for error in results if error is not None]
        for error in errors:
            if not isinstance(error, (LinkError, TritonError)):
                raise error
        if len(errors) == len(results):
            raise errors[0]
        for error in errors:
            log.warning("recogniser away", detail=str(error))
        for upstream in self._present:
            self._keep(upstream)

    async def close(self) -> None:
        """Leave all upstreams."""
        upstreams = (*self._present, *self._retiring)
        await _cancel((*self._keeping.values(), *self._retiring.values()))
        await asyncio.gather(*(upstream.close() for upstream in upstreams))

    async def roll(
        self, model: str, limit_s: float = RETIRE_LIMIT_S, on_start: Callable[[], None] = lambda: None
    ) -> asyncio.Future[list[Any]]:
        """Replace the model by another one that answers on every Triton that is well. Raise RollError if it does not.

        Streams move at their next cut. Those that do not reach one within the limit move as if the former model had
        failed. The returned future is done when no Triton has the former model; it has a sentence for each problem.
        `on_start` is called before the Tritons load the model, unless the model is refused at once.
        """
        async with self._changing:
            if self.state is not LoadState.LOADED:
                raise RollError(f"{self.name} is not loaded now: the next session that asks for it loads {self.model}")
            if any(peer.model == model for peer in self._peers()):
                raise RollError(f"{model} is already in use")
            await look_for(self._present, model)
            on_start()
            successors_of = await successors(self._present, model)
            former, self.model = self.model, model
            if self._origin.now is ModelOrigin.GIVEN:
                self._origin.become(ModelOrigin.ROLLED)
            self._upstreams = {triton: successors_of[upstream] for triton, upstream in self._upstreams.items()}
            for upstream in successors_of.values():
                self._keep(upstream)
            leaving = [self._retire(upstream, limit_s, unload=True) for upstream in successors_of]
        log.info("rolled", name=self.name, model=model, former=former)
        return asyncio.gather(*leaving, return_exceptions=True)

    def follow(self) -> None:
        """Begin to use new Tritons, and retire those that are gone. The caller must hold the lock."""
        before, present = self._upstreams, self._tritons.present
        self._upstreams = {triton: before.get(triton) or self._upstream(triton) for triton in present}
        for triton, upstream in self._upstreams.items():
            if triton not in before:
                self._keep(upstream)
        for triton, upstream in before.items():
            if triton not in self._upstreams:
                self._retire(upstream, RETIRE_LIMIT_S, unload=False)

    def reserve(self, options: Mapping[str, Any]) -> Reservation | None:
        """Reserve a slot at the least loaded upstream; None if there is none."""
        upstream = self._choose(None)
        return None if upstream is None else Reservation(upstream, options, self._choose)

    @property
    def instances(self) -> int | None:
        """The number of the model's instances at the embedded Triton; None if it cannot be changed."""
        return next((number for upstream in self._present if (number := _instances(upstream)) is not None), None)

    async def resize(self, instances: int, limit_s: float = RETIRE_LIMIT_S) -> None:
        """Change the number of instances. Raise TritonError if that fails; then the number stays as it was.

        The streams of an instance that goes move at their next cut, or after the limit as if the Triton had failed.
        """
        async with self._changing:
            for upstream in self._present:
                if _instances(upstream) is not None:
                    await upstream.resize(instances, limit_s)

    @property
    def _present(self) -> list[Upstream]:
        return list(self._upstreams.values())

    def _choose(self, former: Upstream | None) -> Upstream | None:
        """Return the least loaded upstream with a free slot, if possible not the former one."""
        candidates = [upstream for upstream in self._present if upstream.well and upstream.in_use < upstream.most]
        return min(candidates, key=lambda each: (each is former, each.in_use / each.most), default=None)

    def _upstream(self, triton: Supervisor) -> Upstream:
        rolled = self._origin.now is ModelOrigin.ROLLED
        return Upstream(triton.name, triton, self.model, loads=rolled or triton.loads)

    def _keep(self, upstream: Upstream) -> None:
        self._keeping[upstream] = asyncio.create_task(upstream.keep())

    def _retire(self, upstream: Upstream, limit_s: float, *, unload: bool) -> asyncio.Task[str]:
        upstream.retire()
        task = self._retiring[upstream] = asyncio.create_task(self._see_off(upstream, limit_s, unload))
        return task

    async def _see_off(self, upstream: Upstream, limit_s: float, unload: bool) -> str:
        """Wait until an upstream has no streams, then leave it and unload its model. Return the problem, or ""."""
        await _cancel([self._keeping.pop(upstream)])
        await upstream.wait_until_empty(limit_s)
        if upstream.in_use:
            log.warning("recogniser left", triton=upstream.name, model=upstream.model, sequences=upstream.in_use)
        await upstream.close()
        try:
            if unload:
                await self._unload(upstream)
        except TritonError as error:
            log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
            return f"{upstream.model} stays at {upstream.name}: {error}"
        finally:
            del self._retiring[upstream]
        return ""

    async def _unload(self, upstream: Upstream) -> None:
        model = upstream.model
        if not await upstream.supervisor.unused(model, UNUSED_LIMIT_S):
            raise TritonError("others still use it, or its Triton does not report that")
        async with self._changing:
            users = [peer for peer in self._peers() if peer.model == model and peer.state is not LoadState.LEAVING]
            if not users:  # a roll may have brought the model back meanwhile
                await upstream.supervisor.unload(model)


def _instances(upstream: Upstream) -> int | None:
    return upstream.supervisor.instances(upstream.model)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        # Before Python 3.12, wait_for() loses a cancellation that comes at the same time as its result.
        _, waiting = await asyncio.wait(waiting, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)


# The slot that one stream holds. If its upstream fails or retires, the stream gets a slot at another upstream.

# The beginning of the sentence with which all models of ours refuse an option that they do not know.
_UNKNOWN_OPTION: Final = re.compile(r"unknown option '(\w+)'")
# Returns the upstream for the next sequence of a stream, from the last one; None if no upstream has room.
Chooser = Callable[[Upstream], Upstream | None]


class SlotState(Enum):
    """The state of the sequence in the slot."""

    RESERVED = "reserved"  # there is none yet
    ASKED = "asked"  # the model got the start of a sequence, and has not accepted it yet
    ACCEPTED = "accepted"  # the model has accepted the sequence


RESERVATION_TRANSITIONS: Mapping[SlotState, tuple[SlotState, ...]] = {
    SlotState.RESERVED: (SlotState.ASKED,),
    SlotState.ASKED: (SlotState.ACCEPTED,),
    SlotState.ACCEPTED: (SlotState.ASKED,),
}


class Reservation:
    """The slot of one stream, from the admission to the end of its session. It reports failures to its upstream."""

    def __init__(self, upstream: Upstream, options: Mapping[str, Any], choose: Chooser) -> None:
        self._options = options
        self._choose = choose
        self._states = States("reservation", SlotState.RESERVED, RESERVATION_TRANSITIONS)
        self._open(upstream, options)

    @property
    def upstream(self) -> Upstream:
        """The upstream of the stream, or its last one."""
        return self._upstream

    @property
    def leaving(self) -> bool:
        """Whether the stream must move to another slot as soon as it can, and there is one."""
        upstream = self._upstream
        return upstream.must_move(self) or (upstream.retiring and self._choose(upstream) is not None)

    async def begin(self, options: Mapping[str, Any]) -> list[ModelEvent]:
        """Start a sequence and return its first events. Raise LinkError if that fails.

        If there was a sequence before, this one goes to another upstream if possible. `options` are for this sequence,
        in addition to the stream's own.
        """
        all_options: Mapping[str, Any] = {**self._options, **options}
        if self._states.now is not SlotState.RESERVED:
            self._move(all_options)
        elif options:
            self._sequence_options, self._sequence = all_options, self._link.sequence(all_options)
        if self._states.now is not SlotState.ASKED:
            self._states.become(SlotState.ASKED)
        return await self.send()

    async def send(self, audio: bytes = b"", *, flush: bool = False, end: bool = False) -> list[ModelEvent]:
        """Send a request and return the events of its answer (see Sequence.send), within a limit of the upstream."""
        upstream, link = self._upstream, self._link
        # Closing a link ends its sequences. To the caller this must look like a lost connection, not like a mistake.
        if not link.alive:
            raise ConnectionLost("the link was closed")
        if upstream.is_overdue(self):
            raise ConnectionLost("its instance is being removed")
        sent_at, patience, audio_s = time.monotonic(), upstream.patience, len(audio) / BYTES_PER_S
        opening = self._states.now is not SlotState.ACCEPTED and not (audio or flush or end)
        preparing = opening and bool(self._sequence_options.get("hotwords"))
        try:
            if opening:
                async with upstream.openings.one():
                    events = await self._begin(max(patience.limit_s, PREPARING_S if preparing else 0))
                    upstream.note_instance(self, instance_of(events))
            else:
                with patience.work(audio_s, sent_at):
                    limit = lambda: upstream.limit_s(self)  # noqa: E731 (it grows with the work of others)
                    events = await self._sequence.send(audio, flush=flush, end=end, timeout=limit)
                    patience.note(time.monotonic() - sent_at, time.monotonic(), audio_s)
        except LinkError as error:
            silent = isinstance(error, Overdue) and link.answered_at < sent_at
            if not (isinstance(error, Overdue) and upstream.answers_since(self, sent_at)):
                upstream.doubt(link, error, certain=silent)
            raise
        now = time.monotonic()
        upstream.note_answer(self)
        if self._states.now is not SlotState.ACCEPTED:
            self._states.become(SlotState.ACCEPTED)
        if opening and not preparing:  # the time of preparations says nothing about other answers
            patience.note(now - sent_at, now)
        return events

    def release(self) -> None:
        """End the sequence if it is open, and give the slot back. This may be called again."""
        self._sequence.discard()
        self._upstream.give_back(self)

    async def _begin(self, patience_s: float) -> list[ModelEvent]:
        """Begin the sequence. An older model does not know each option, and goes on with those that it knows."""
        begin = self._sequence.send
        while True:
            try:
                return await self._begin_once(begin, patience_s)
            except LinkError as error:
                name = _unknown_option(error)
                if name not in self._sequence_options:
                    raise
                log.warning("model does not know an option", model=self._upstream.model, option=name)
            options = {each: value for each, value in self._sequence_options.items() if each != name}
            self._sequence_options, begin = options, partial(self._sequence.begin_anew, options)

    async def _begin_once(
        self, begin: Callable[..., Awaitable[list[ModelEvent]]], patience_s: float
    ) -> list[ModelEvent]:
        upstream = self._upstream
        if not upstream.must_choose:
            return await begin(timeout=patience_s)
        self._sequence, events = await begin_at_living(
            self._link, self._sequence_options, upstream.in_use, patience_s, upstream.avoids
        )
        return events

    def _open(self, upstream: Upstream, options: Mapping[str, Any]) -> None:
        self._upstream, self._link = upstream, upstream.hold(self)
        self._sequence_options = options
        self._sequence = self._link.sequence(options)

    def _move(self, options: Mapping[str, Any]) -> None:
        self.release()
        upstream = self._choose(self._upstream)
        if upstream is None:
            raise LinkError(FailureCode.UNAVAILABLE, "no recogniser is ready and has a free slot")
        self._open(upstream, options)


def _unknown_option(error: LinkError) -> str:
    """Return the option that a model did not know; empty if the error is another one."""
    found = _UNKNOWN_OPTION.match(error.message) if error.code == FailureCode.BAD_OPTIONS else None
    return found[1] if found else ""


# Prepares another model on the same Tritons, and tests it before streams go there.

# The longest wait until a model that was loaded in vain is unused, so that it can be unloaded again.
DROP_LIMIT_S = 60.0


class RollError(Exception):
    """The roll failed, and the service keeps its model. The message says why."""


async def look_for(upstreams: Iterable[Upstream], model: str) -> None:
    """Raise RollError if no Triton is ready, or a ready one has no such model. This loads nothing."""
    ready = _ready(upstreams, model)
    searches = (upstream.supervisor.look_for(model) for upstream in ready)
    results = await asyncio.gather(*searches, return_exceptions=True)
    _check(model, [f"{upstream.name}: {error}" for upstream, error in zip(ready, results, strict=True) if error])


async def successors(upstreams: Iterable[Upstream], model: str) -> dict[Upstream, Upstream]:
    """Return for each upstream one with another model at the same Triton, which has answered a short sequence.

    A Triton that is away gets the model when it is back. If a ready one cannot serve the model, raise RollError, and
    leave everything as it was.
    """
    successor_of = {
        upstream: Upstream(upstream.name, upstream.supervisor, model, loads=True) for upstream in list(upstreams)
    }
    ready = [successor_of[upstream] for upstream in _ready(successor_of, model)]
    try:
        results = await asyncio.gather(*(upstream.open() for upstream in ready), return_exceptions=True)
        failures = [f"{upstream.name}: {error}" for upstream, error in zip(ready, results, strict=True) if error]
        failures = failures or [f"{upstream.name} was lost again" for upstream in ready if not upstream.well]
        room, in_use = (sum(upstream.most for upstream in ready), sum(upstream.in_use for upstream in successor_of))
        if not failures and room < in_use:
            failures = [f"It has slots for {room} sequences, but sessions hold {in_use}"]
    except asyncio.CancelledError:
        await asyncio.gather(*(upstream.close() for upstream in ready))
        raise
    if failures:
        await asyncio.gather(*(_drop(upstream) for upstream in ready))
        _check(model, failures)
    return successor_of


def _ready(upstreams: Iterable[Upstream], model: str) -> list[Upstream]:
    """Return the upstreams that are ready. Raise RollError if none is."""
    ready = [upstream for upstream in upstreams if upstream.well]
    if not ready:
        raise RollError(f"{model} cannot be tested: no Triton is ready")
    return ready


def _check(model: str, failures: Sequence[str]) -> None:
    if failures:
        raise RollError(f"{model} cannot be used. {'; '.join(failures)}")


async def _drop(upstream: Upstream) -> None:
    """Leave an upstream, and unload its model if this upstream has loaded it."""
    await upstream.close()
    if not upstream.loaded:
        return
    try:
        if not await upstream.supervisor.unused(upstream.model, DROP_LIMIT_S):
            raise TritonError("others use it, or its Triton does not report that")
        await upstream.supervisor.unload(upstream.model)
    except TritonError as error:
        log.warning("model not unloaded", triton=upstream.name, model=upstream.model, detail=str(error))
