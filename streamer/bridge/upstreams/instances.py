"""The instances of a model at one Triton: which of them are dead, and how to start a sequence at a living one.

Each instance is a process. Triton does not restart one that has died. It fails every request to it, but still gives it
new sequences, even before all other instances, since its slots are free.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tritonclient.grpc import service_pb2, service_pb2_grpc  # type: ignore[import-untyped]

from streamer.triton.dialer import Dialer
from streamer.triton.link import Link, LinkError, Overdue, Sequence
from streamer.wire.model_events import ModelEvent, Opened

_DEAD: Final = re.compile(r"Stub process '([^']*)' is not healthy")
MOST_AT_ONCE: Final = 256
CONFIG_LIMIT_S: Final = 5.0
# If a Triton answers but its model has been silent for so long, the model is loaded again, because a process of it
# hangs. That ends sequences of other clients too, so the limit is long, and doubles each time in a row.
SILENT_LIMIT_S: Final = 30.0
LONGEST_SILENT_LIMIT_S: Final = 300.0
_starting: set[asyncio.Task[None]] = set()  # tasks that end sequences which are not needed any more


def languages_of(events: Iterable[ModelEvent]) -> tuple[str, ...]:
    """Return the languages of which sequences of this model may choose one, as it said when it opened one."""
    return next((event.languages for event in events if isinstance(event, Opened)), ())


def instance_of(events: Iterable[ModelEvent]) -> str:
    """Return the name of the instance that opened a sequence; empty if the model does not report names."""
    return next((event.instance or "" for event in events if isinstance(event, Opened)), "")


def has_died(error: LinkError) -> bool:
    """Return whether a request failed because its model instance has died."""
    return _DEAD.search(error.message) is not None


class Instances:
    """The instances, known by the names in their answers."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.dead_since: float | None = None  # when that was noticed
        self._known: set[str] = set()
        self._leaving: dict[str, float] = {}  # the groups of those that are being removed, and until when

    def answered(self, names: Iterable[str]) -> None:
        """Note that these instances live."""
        self._known.update(names)
        self.dead.difference_update(names)
        if not self.dead:
            self.dead_since = None

    def remove(self, groups: Iterable[str], until: float) -> None:
        """Note that the instances of these groups will be removed. Their sequences must have left them by then."""
        self._leaving.update(dict.fromkeys(groups, until))
        self._known = {name for name in self._known if self.leaves_at(name) is None}
        self.dead = {name for name in self.dead if self.leaves_at(name) is None}
        if not self.dead:
            self.dead_since = None

    @property
    def leave(self) -> bool:
        """Whether some will be removed."""
        return bool(self._leaving)

    def forget(self, groups: Iterable[str]) -> None:
        """Note that these groups have no instances any more, or that theirs stay."""
        for group in groups:
            self._leaving.pop(group, None)

    def leaves_at(self, name: str) -> float | None:
        """Return until when the sequences of this instance must have left it; None if it stays."""
        return self._leaving.get(name.rpartition("_")[0])

    def failed(self, message: str) -> bool:
        """Note a failed request. Return whether its message means that an instance has died while others live.

        The instances of another step of an ensemble cannot take its place.
        """
        found = _DEAD.search(message)
        if found and self.leaves_at(found[1]) is not None:
            return True
        if found is None:
            return False
        self.dead.add(found[1])
        self._known.add(found[1])
        return any(_model(name) == _model(found[1]) for name in self._known - self.dead)


class Openings:
    """The beginnings of sequences. They wait while an instance is removed, as none may be there then."""

    def __init__(self) -> None:
        self._number = 0
        self._allowed, self._none = asyncio.Event(), asyncio.Event()
        self._allowed.set()
        self._none.set()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Begin sequences, when that is allowed."""
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
        """Let no sequence begin. Those that have begun are waited for, within the limit of their answers."""
        self._allowed.clear()
        try:
            await self._none.wait()
            yield
        finally:
            self._allowed.set()


class Places:
    """The holders of slots, and the instance that has the sequence of each."""

    def __init__(self) -> None:
        self.instances: dict[object, str] = {}  # empty until it is known
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self.instances)

    def add(self, holder: object) -> None:
        """Add a holder."""
        self.instances[holder] = ""
        self._none.clear()

    def place(self, holder: object, instance: str) -> None:
        """Note the instance of a holder, if it has not left meanwhile."""
        if holder in self.instances:
            self.instances[holder] = instance

    def discard(self, holder: object) -> None:
        """Remove a holder. It may be called again."""
        self.instances.pop(holder, None)
        if not self.instances:
            self._none.set()

    async def gone(self) -> None:
        """Wait until there are no holders."""
        await self._none.wait()


@dataclass(frozen=True)
class ModelSize:
    """How many sequences a model takes."""

    instances: int
    slots: int  # of each instance
    probes: int = 0  # the number of sequences at once that reach all of its processes


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
        """Note that a probe failed which started at `began`. Return whether the model must be loaded again."""
        if not isinstance(error, Overdue):
            self._silent_since = None
            return has_died(error)
        if self._silent_since is None:
            self._silent_since = began
        if now - self._silent_since < self._limit_s:
            return False
        self._silent_since, self._limit_s = None, min(2 * self._limit_s, LONGEST_SILENT_LIMIT_S)
        return True


async def begin_past_the_dead(
    link: Link, options: Mapping[str, Any], taken: int, timeout: float, avoids: Callable[[str], bool]
) -> tuple[Sequence, list[ModelEvent]]:
    """Start a sequence at a living instance. Return it with its first events. LinkError if no instance lives.

    `avoids`: whether an instance with this name is used only if there is no other, because it will be removed.

    Triton gives a new sequence the lowest free slot of any instance. If `taken` slots are held at the living instances,
    one more sequence than that gets past the slots of the dead ones. Sequences that fail are not ended: they hold their
    slots until Triton forgets them, so that later sequences get past these slots sooner.
    """
    # Hotwords take long to prepare, so only the sequence that is kept gets them.
    costly = bool(options.get("hotwords"))
    first = {**options, "hotwords": []} if costly else options
    sequences = [link.sequence(first) for _ in range(min(taken + 2, MOST_AT_ONCE))]
    asked = {asyncio.create_task(_begun(sequence, timeout)): sequence for sequence in sequences}
    waiting, error = set(asked), LinkError("unavailable", "no instance lives")
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
                    return await _kept(asked, task, options if costly else None, timeout)
        if spare is not None:
            return await _kept(asked, spare, options if costly else None, timeout)
        raise error
    finally:
        for task, sequence in asked.items():
            ending = asyncio.create_task(_end(task, sequence))
            _starting.add(ending)
            ending.add_done_callback(_starting.discard)


async def all_begun() -> None:
    """Wait until all sequences were answered that begin_past_the_dead has started and did not keep."""
    while _starting:
        await asyncio.wait(_starting)


async def _kept(
    asked: dict[asyncio.Task[list[ModelEvent] | LinkError], Sequence],
    task: asyncio.Task[list[ModelEvent] | LinkError],
    options: Mapping[str, Any] | None,
    timeout: float,
) -> tuple[Sequence, list[ModelEvent]]:
    """Take one of the sequences that were asked for. With options, it begins anew with these."""
    sequence, events = asked.pop(task), task.result()
    assert not isinstance(events, LinkError)
    if options is None:
        return sequence, events
    try:
        return sequence, await sequence.begin_anew(options, timeout=timeout)
    except BaseException:
        sequence.discard()
        raise


async def _begun(sequence: Sequence, timeout: float) -> list[ModelEvent] | LinkError:
    try:
        return await sequence.send(timeout=timeout)
    except LinkError as error:
        return error


async def _end(beginning: asyncio.Task[list[ModelEvent] | LinkError], sequence: Sequence) -> None:
    answer = await beginning
    if isinstance(answer, LinkError) and has_died(answer):
        sequence.abandon()
    else:
        sequence.discard()
