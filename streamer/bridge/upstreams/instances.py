"""The instances of a model at one Triton: which of them are dead, and how to start a sequence at a living one.

Each instance is a process. If one dies, Triton does not restart it. All requests to it fail, but Triton still gives it
new sequences, even before all other instances, because its slots are free.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.base.codes import FailureCode
from streamer.base.events import ModelEvent, Opened
from streamer.bridge.triton.link import Dialer, Link, LinkError, Overdue, Sequence

_DEAD: Final = re.compile(r"Stub process '([^']*)' is not healthy")
MOST_AT_ONCE: Final = 256
CONFIG_LIMIT_S: Final = 5.0
# If a Triton answers but its model has been silent for this time, one of the model's processes hangs, and the model is
# loaded again. That ends sequences of other clients too, so the limit is long, and doubles with each time in a row.
SILENT_LIMIT_S: Final = 30.0
LONGEST_SILENT_LIMIT_S: Final = 300.0
_endings: set[asyncio.Task[None]] = set()  # tasks that end the sequences that were started but not kept


def languages_of(events: Iterable[ModelEvent]) -> tuple[str, ...]:
    """Return the languages from which a sequence of this model may choose, as the answer to its first request says."""
    return next((event.languages or () for event in events if isinstance(event, Opened)), ())


def instance_of(events: Iterable[ModelEvent]) -> str:
    """Return the name of the instance that opened a sequence; empty if the model does not report names."""
    return next((event.instance or "" for event in events if isinstance(event, Opened)), "")


def reports_dead_instance(error: LinkError) -> bool:
    """Return whether a request failed because its model instance has died."""
    return _DEAD.search(error.message) is not None


class Instances:
    """The instances of one model, by the names in their answers."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.dead_since: float | None = None  # when the first dead one was noticed
        self._names: set[str] = set()
        self._leaving: dict[str, float] = {}  # the groups that will be removed, and the time of that
        self._answered_at: dict[str, float] = {}  # the time of the last answer of each

    def note_living(self, names: Iterable[str]) -> None:
        """Note that these instances have answered."""
        self._names.update(names)
        self.dead.difference_update(names)
        if not self.dead:
            self.dead_since = None

    def note_answer(self, name: str, now: float) -> None:
        """Note that this instance has answered a request. The name is empty if the model does not report names."""
        self._answered_at[name] = now

    def answer_since(self, names: Iterable[str], at: float) -> bool:
        """Return whether each of these has answered a request since this time, so that it is at most busy."""
        return all(self._answered_at.get(name, float("-inf")) > at for name in names)

    def remove(self, groups: Iterable[str], until: float) -> None:
        """Note that these groups of instances will be removed. Their sequences must have left them at this time."""
        self._leaving.update(dict.fromkeys(groups, until))
        self._names = {name for name in self._names if self.leaves_at(name) is None}
        self.dead = {name for name in self.dead if self.leaves_at(name) is None}
        if not self.dead:
            self.dead_since = None

    @property
    def any_leaving(self) -> bool:
        """Whether some of them will be removed."""
        return bool(self._leaving)

    def forget(self, groups: Iterable[str]) -> None:
        """Note that these groups were removed, or that they stay."""
        self._answered_at = {name: at for name, at in self._answered_at.items() if self.leaves_at(name) is None}
        for group in groups:
            self._leaving.pop(group, None)

    def leaves_at(self, name: str) -> float | None:
        """Return the time at which the sequences of this instance must have left it; None if it stays."""
        return self._leaving.get(name.rpartition("_")[0])

    def note_failure(self, message: str) -> bool:
        """Note a failed request. Return whether its message means that an instance has died while others live.

        The instances of another step of an ensemble cannot take its place.
        """
        match = _DEAD.search(message)
        if match is None:
            return False
        instance = match[1]
        if self.leaves_at(instance) is not None:
            return True
        self.dead.add(instance)
        self._names.add(instance)
        return any(_model(name) == _model(instance) for name in self._names - self.dead)


class Openings:
    """The beginnings of sequences. They wait while an instance is removed, because no sequence may begin there then."""

    def __init__(self) -> None:
        self._number = 0
        self._allowed, self._none = asyncio.Event(), asyncio.Event()
        self._allowed.set()
        self._none.set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait until sequences may begin, and let the caller begin some."""
        await self._allowed.wait()
        self._number += 1
        self._none.clear()
        try:
            yield
        finally:
            self._number -= 1
            if not self._number:
                self._none.set()

    @asynccontextmanager
    async def none(self) -> AsyncIterator[None]:
        """Let no sequence begin, but wait for those that are beginning, within the limit of their answers."""
        self._allowed.clear()
        try:
            await self._none.wait()
            yield
        finally:
            self._allowed.set()


class Places:
    """The holders of slots, and the instance that has the sequence of each."""

    def __init__(self) -> None:
        self.instances: dict[object, str] = {}  # the name is empty before it is known
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self.instances)

    def add(self, holder: object) -> None:
        """Add a holder."""
        self.instances[holder] = ""
        self._none.clear()

    def note_instance(self, holder: object, instance: str) -> None:
        """Note the instance of a holder, unless the holder has left meanwhile."""
        if holder in self.instances:
            self.instances[holder] = instance

    def discard(self, holder: object) -> None:
        """Remove a holder. This may be called again."""
        self.instances.pop(holder, None)
        if not self.instances:
            self._none.set()

    async def wait_until_empty(self) -> None:
        """Wait until there are no holders."""
        await self._none.wait()


@dataclass(frozen=True)
class ModelSize:
    """The number of sequences that a model takes."""

    instances: int
    slots: int  # of each instance
    probes: int = 0  # the number of simultaneous sequences that reach all of its processes


async def model_size(address: str, model: str, dial: Dialer) -> ModelSize:
    """Return the size of a model. An ensemble takes as many sequences as the smallest of its steps with a state."""
    async with dial.channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)

        async def config(name: str) -> Any:
            request = service_pb2.ModelConfigRequest(name=name)
            return (await stub.ModelConfig(request, timeout=CONFIG_LIMIT_S)).config

        whole = await config(model)
        steps = [await config(step.model_name) for step in whole.ensemble_scheduling.step]
    sizes = [_size_of(step) for step in steps if step.HasField("sequence_batching")] or [_size_of(whole)]
    least = min(sizes, key=lambda size: size.instances * (size.slots - 1))
    return replace(least, probes=max(size.instances for size in sizes))


def _size_of(config: Any) -> ModelSize:
    instances = sum(group.count * max(1, len(group.gpus)) for group in config.instance_group)
    return ModelSize(int(instances), int(config.sequence_batching.oldest.max_candidate_sequences))


def _model(instance: str) -> str:
    """Return the name of the model in the name of an instance: MODEL_GROUP_NUMBER."""
    return instance.rsplit("_", 2)[0]


class OpeningFailures:
    """Decides, after failed attempts to open an upstream, whether its model must be loaded again."""

    def __init__(self) -> None:
        self._silent_since: float | None = None
        self._limit_s = SILENT_LIMIT_S

    def need_reload(self, error: LinkError, began: float, now: float) -> bool:
        """Note that a probe failed, which started at `began`. Return whether the model must be loaded again."""
        if not isinstance(error, Overdue):
            self._silent_since = None
            return reports_dead_instance(error)
        if self._silent_since is None:
            self._silent_since = began
        if now - self._silent_since < self._limit_s:
            return False
        self._silent_since, self._limit_s = None, min(2 * self._limit_s, LONGEST_SILENT_LIMIT_S)
        return True


async def begin_at_living(
    link: Link, options: Mapping[str, Any], in_use: int, timeout: float, avoids: Callable[[str], bool]
) -> tuple[Sequence, list[ModelEvent]]:
    """Start a sequence at a living instance. Return it with its first events. Raise LinkError if no instance lives.

    `avoids`: tells whether an instance with this name will be removed. It gets the sequence only if there is no other.

    Triton gives a new sequence the lowest free slot of any instance. If `in_use` slots of living instances are in use,
    new sequences fill as many slots of a dead one before they reach a living one. Sequences that fail are not ended:
    they hold their slots until Triton forgets them, so that later sequences need fewer attempts.
    """
    # Hotwords take long to prepare, so only the sequence that is kept gets them.
    costly = bool(options.get("hotwords"))
    first = {**options, "hotwords": []} if costly else options
    sequences = [link.sequence(first) for _ in range(min(in_use + 2, MOST_AT_ONCE))]
    beginnings = {asyncio.create_task(_begin(sequence, timeout)): sequence for sequence in sequences}
    waiting, error = set(beginnings), LinkError(FailureCode.UNAVAILABLE, "no instance lives")
    spare: asyncio.Task[list[ModelEvent] | LinkError] | None = None
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                answer = task.result()
                if isinstance(answer, LinkError):
                    error = answer
                elif avoids(instance_of(answer)):
                    spare = task
                else:
                    return await _keep(beginnings, task, options if costly else None, timeout)
        if spare is not None:
            return await _keep(beginnings, spare, options if costly else None, timeout)
        raise error
    finally:
        for task, sequence in beginnings.items():
            ending = asyncio.create_task(_end(task, sequence))
            _endings.add(ending)
            ending.add_done_callback(_endings.discard)


async def wait_for_endings() -> None:
    """Wait until all sequences have ended that begin_at_living() has started and not kept."""
    while _endings:
        await asyncio.wait(_endings)


async def _keep(
    beginnings: dict[asyncio.Task[list[ModelEvent] | LinkError], Sequence],
    task: asyncio.Task[list[ModelEvent] | LinkError],
    options: Mapping[str, Any] | None,
    timeout: float,
) -> tuple[Sequence, list[ModelEvent]]:
    """Take one of the sequences out of `beginnings`. With options, it begins anew with these."""
    sequence, events = beginnings.pop(task), task.result()
    assert not isinstance(events, LinkError)
    if options is None:
        return sequence, events
    try:
        return sequence, await sequence.begin_anew(options, timeout=timeout)
    except BaseException:
        sequence.discard()
        raise


async def _begin(sequence: Sequence, timeout: float) -> list[ModelEvent] | LinkError:
    try:
        return await sequence.send(timeout=timeout)
    except LinkError as error:
        return error


async def _end(beginning: asyncio.Task[list[ModelEvent] | LinkError], sequence: Sequence) -> None:
    answer = await beginning
    if isinstance(answer, LinkError) and reports_dead_instance(answer):
        sequence.abandon()
    else:
        sequence.discard()
