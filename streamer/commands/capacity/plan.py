"""Computes how many instances, slots and sessions fit in a memory, from the sizes of the parts of a service.

Pure: sizes in, a plan out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from textwrap import fill
from typing import Final

from streamer.base.text import counted
from streamer.commands.capacity.session_limit import SLOTS, USUAL_SLOTS, slots_for
from streamer.models.needs import KEPT_FREE

MOST_SLOTS: Final = 65536  # no processor carries more
FEWEST_SLOTS: Final = 2  # one for a stream, and one for the probe of the bridge


BRIDGE: Final = "bridge: Python and its libraries"  # the part that each worker is, too


class Scope(Enum):
    """The unit of a service that needs a part once."""

    SERVICE = "service"
    INSTANCE = "instance"
    SLOT = "slot"
    STREAM = "stream"


@dataclass(frozen=True)
class Part:
    """A part of a service, and the bytes that it takes in each unit of its scope."""

    name: str
    scope: Scope
    main: int
    gpu: int = 0
    most: int | None = None  # the largest number of them in an instance


@dataclass(frozen=True)
class Memory:
    """Bytes of main memory and of the memory of a GPU. `gpu` is None if there is no GPU."""

    main: int
    gpu: int | None = None

    def usable(self) -> Memory:
        """Return the memory that may be used if KEPT_FREE stays free."""
        return self.times(1 - KEPT_FREE)

    def times(self, factor: float) -> Memory:
        """Return the memory multiplied by a factor."""
        return Memory(round(self.main * factor), None if self.gpu is None else round(self.gpu * factor))

    def holds(self, amount: Memory) -> bool:
        """Return whether this amount fits into the memory."""
        return amount.main <= self.main and (self.gpu is None or (amount.gpu or 0) <= self.gpu)


@dataclass(frozen=True)
class Size:
    """The size of a service."""

    instances: int
    slots: int  # in each instance
    streams: int  # at a time
    workers: int = 1  # processes of the bridge, each of which has a probe in each instance

    def number(self, part: Part) -> int:
        """Return how often a service of this size needs the part."""
        every = self.streams if part.scope is Scope.STREAM else self.instances * self.slots
        every = {Scope.SERVICE: 1, Scope.INSTANCE: self.instances}.get(part.scope, every)
        return every if part.most is None else min(every, part.most * self.instances)

    def needed(self, parts: Sequence[Part]) -> Memory:
        """Return how much memory a service of this size takes."""
        return Memory(
            sum(part.main * self.number(part) for part in parts), sum(part.gpu * self.number(part) for part in parts)
        )


class Limit(Enum):
    """The resource that limits the number of sessions."""

    MEMORY = "memory"
    PROCESSORS = "processors"


@dataclass(frozen=True)
class Plan:
    """The recommended size of a service, and the largest one that fits."""

    parts: Sequence[Part]
    memory: Memory
    fits: Size  # the largest service that fits in the memory, with this number of instances
    carried: int | None  # the measured number of sessions that the processors carry; None without a measurement
    recommended: Size
    limit: Limit | None  # None without a measurement of the processors

    @property
    def needed(self) -> Memory:
        """How much memory the recommended service takes, at most."""
        needed = self.recommended.needed(self.parts)
        return Memory(needed.main) if self.memory.gpu is None else needed


class TooSmall(Exception):
    """Not even one stream fits in the memory. `needed` is the necessary memory, with the part that stays free."""

    def __init__(self, needed: Memory) -> None:
        super().__init__()
        self.needed = needed


def with_workers(parts: Sequence[Part], workers: int) -> list[Part]:
    """Return the parts of a service with so many workers, and one more process that starts them."""
    if workers == 1:
        return list(parts)
    name = f"{workers} workers, and the process that starts them"
    size = workers + 1
    return [replace(part, name=name, main=part.main * size) if part.name == BRIDGE else part for part in parts]


def largest(parts: Sequence[Part], memory: Memory, instances: int, workers: int = 1) -> Size:
    """Return the largest service with this number of instances that fits in the memory. TooSmall if none does.

    `parts` has all workers already (`with_workers`).
    """
    fewest = FEWEST_SLOTS + workers - 1

    def size(slots: int) -> Size:
        return Size(instances, slots, instances * (slots - workers), workers)

    def fits(slots: int) -> bool:
        return memory.usable().holds(size(slots).needed(parts))

    if not fits(fewest):
        raise TooSmall(size(fewest).needed(parts).times(1 / (1 - KEPT_FREE)))
    low, high = fewest, MOST_SLOTS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return size(low)


def fewer_instances(parts: Sequence[Part], memory: Memory, instances: int) -> int:
    """Return how many instances fit in the memory, at most `instances`. TooSmall if not even one does."""
    while instances > 1:
        try:
            return largest(parts, memory, instances).instances
        except TooSmall:
            instances -= 1
    return largest(parts, memory, 1).instances


def best_size(parts: Sequence[Part], memory: Memory, most: int, slots: int) -> Size:
    """Return the size of a service for the most sessions, with at most so many instances and slots in each.

    Of two that are equal, the one with more instances. TooSmall if the memory has no room for one stream.
    """

    def size(instances: int) -> Size:
        each = min(slots, largest(parts, memory, instances).slots)
        return Size(instances, each, instances * (each - 1))

    possible = range(1, fewer_instances(parts, memory, most) + 1)
    return max(map(size, possible), key=lambda each: (each.streams, each.instances))


def plan(
    parts: Sequence[Part],
    memory: Memory,
    instances: int,
    carried: int | None,
    workers: int = 1,
    usual_slots: int = USUAL_SLOTS,
) -> Plan:
    """Recommend the size of a service. TooSmall if not even one stream for each instance fits in the memory.

    `usual_slots`: how many an instance has at most on processors if nobody knows how many sessions they carry.
    """
    fits = largest(parts, memory, instances, workers)
    if carried is None:
        # On processors, more than the usual slots are of no use.
        slots = min(fits.slots, usual_slots if memory.gpu is None else SLOTS)
        return Plan(parts, memory, fits, None, Size(instances, slots, instances * (slots - workers), workers), None)
    sessions = min(fits.streams, carried)
    # More slots than sessions need, if there is memory for them.
    recommended = replace(fits, slots=min(fits.slots, slots_for(sessions, instances) + workers - 1), streams=sessions)
    limit = Limit.PROCESSORS if carried < fits.streams else Limit.MEMORY
    return Plan(parts, memory, fits, carried, recommended, limit)


# Writes a plan: as a table and sentences for a reader, or as an object for a program.

MEGABYTE: Final = 1_000_000
GIGABYTE: Final = 1_000_000_000
WIDTH: Final = 100  # of sentences
_EACH: Final = {
    Scope.SERVICE: "once",
    Scope.INSTANCE: "for each instance",
    Scope.SLOT: "for each slot",
    Scope.STREAM: "for each stream, at most",
}


@dataclass(frozen=True)
class InstanceConfig:
    """The part of a model's configuration that is about its instances."""

    name: str
    kind: str  # of its instances, in Triton's words
    has_slots: bool = True


@dataclass(frozen=True)
class Subject:
    """The model and the machine that a plan is for."""

    model: str  # its name in Triton
    bundle: str  # the name of its bundle
    gpu: str | None  # the GPU where it computes
    configs: Sequence[InstanceConfig]  # the models with instances: the model itself, or the steps of an ensemble
    memory: str  # where the size of the memory comes from: "this machine", "--memory" …
    serve: Sequence[str]  # the arguments of `serve` that choose the model
    instances: str  # the reason for the number of instances
    workers: str = ""  # the reason for the number of workers, if there are several
    costs: Sequence[str] = ()  # what makes a model cost more than others of its size
    speakers_share: float | None = None  # of a processor, for a live session that tells speakers apart


def command(plan: Plan, subject: Subject) -> str:
    """Return the line that starts the recommended service."""
    size = plan.recommended
    sessions = "auto" if plan.carried is None else str(size.streams)
    workers = {"--workers": size.workers} if size.workers > 1 else {}
    numbers = {**workers, "--instances": size.instances, "--slots": size.slots, "--sessions": sessions}
    words = ["streamer", "serve", *subject.serve, *(str(word) for pair in numbers.items() for word in pair)]
    return shlex.join(words)


def configs(plan: Plan, subject: Subject) -> dict[str, str]:
    """Return the lines for the config.pbtxt of each model, for a Triton of one's own."""
    size = plan.recommended
    slots = f"sequence_batching {{ oldest {{ max_candidate_sequences: {size.slots} }} }}"
    return {
        each.name: "\n".join(
            [
                f"instance_group [ {{ count: {size.instances}  kind: {each.kind} }} ]",
                *([slots] if each.has_slots else []),
            ]
        )
        for each in subject.configs
    }


def content(plan: Plan, subject: Subject) -> dict[str, object]:
    """Return the plan as JSON values. Sizes are in bytes."""
    return {
        "model": subject.model,
        "bundle": subject.bundle,
        "gpu": subject.gpu,
        "memory": {
            "from": subject.memory,
            "kept_free": KEPT_FREE,
            "all": _sizes(plan.memory),
            "usable": _sizes(plan.memory.usable()),
        },
        "parts": [
            {"name": part.name, "each": part.scope.value, "main": part.main, "gpu": part.gpu, "most": part.most}
            for part in plan.parts
        ],
        "fits": {"slots": plan.fits.slots, "streams": plan.fits.streams},
        "carried": plan.carried,
        "recommended": {
            "workers": plan.recommended.workers,
            "instances": plan.recommended.instances,
            "slots": plan.recommended.slots,
            "sessions": plan.recommended.streams if plan.carried is not None else None,
            "needed": _sizes(plan.needed),
            "command": command(plan, subject),
            "config": configs(plan, subject) if _is_ensemble(subject) else configs(plan, subject)[subject.model],
        },
        "why": list(reasons(plan, subject)),
    }


def text(plan: Plan, subject: Subject) -> str:
    """Return the plan for a reader."""
    size, usable = plan.recommended, plan.memory.usable()
    place = subject.gpu or "the CPU"
    sessions = counted(size.streams, "session")
    workers = f"{size.workers} workers, " if size.workers > 1 else ""
    if plan.carried is None:
        sessions = f"as many sessions as --sessions auto measures, at most {size.streams}"
    return "\n".join(
        [
            f"{subject.model} ({subject.bundle}) on {place}",
            f"memory: {_amount_text(plan.memory)} ({subject.memory})",
            f"to use: {_amount_text(usable)}, because {round(100 * KEPT_FREE)} % stays free",
            "",
            *_table(plan),
            "",
            f"recommended: {workers}{counted(size.instances, 'instance')}, {counted(size.slots, 'slot')} in each, "
            f"{sessions}",
            "",
            f"  {command(plan, subject)}",
            "",
            f"or in the config.pbtxt {'of each step, in' if _is_ensemble(subject) else 'of'} a Triton of your own:",
            "",
            *_config_lines(plan, subject),
            "",
            "why:",
            *(fill(f"- {reason}", WIDTH, subsequent_indent="  ") for reason in reasons(plan, subject)),
        ]
    )


def reasons(plan: Plan, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each number of the recommendation."""
    size, fits = plan.recommended, plan.fits
    yield f"{counted(size.instances, 'instance')}: {subject.instances}."
    if size.workers > 1:
        yield f"{size.workers} workers: {subject.workers}."
    if _is_ensemble(subject):
        steps = f"Each of the {len(subject.configs)} steps"
        yield f"{steps} has this number of instances and slots: `serve` gives all of them the same."
        yield (
            "A step that has less to do may have fewer instances, with more slots in each: it needs a slot for each "
            "stream, and one in each instance for the probe."
        )
    room = f"The memory has room for {counted(fits.streams, 'stream')} ({counted(fits.slots, 'slot')} in each instance)"
    if plan.limit is Limit.PROCESSORS:
        yield f"{room}, but the processors of this machine carry only {counted(plan.carried or 0, 'session')}."
    elif plan.limit is Limit.MEMORY:
        yield f"{room}; the processors of this machine would carry {counted(plan.carried or 0, 'session')}."
    else:
        yield f"{room}. It was not measured how many the processors of this machine carry: --sessions auto does that."
    for cost in subject.costs:
        yield f"Of {subject.model}: {cost}."
    if subject.speakers_share is not None:
        share = round(100 * subject.speakers_share)
        more = f"{share} % of a processor more, which is not counted here"
        yield f"A live session that tells speakers apart takes {more}."
    spare = size.instances * (size.slots - size.workers) - size.streams
    probes = "one in each instance is for the probe of the service"
    if size.workers > 1:
        probes = f"{size.workers} in each instance are for the probes of the workers"
    more = ", and more let sessions continue when an instance fails" if spare > size.instances else ""
    yield f"{counted(size.slots, 'slot')}: {probes}{more}."
    yield f"The recommended service takes at most {_amount_text(plan.needed)}."


def _is_ensemble(subject: Subject) -> bool:
    return [each.name for each in subject.configs] != [subject.model]


def _config_lines(plan: Plan, subject: Subject) -> Iterator[str]:
    for name, lines in configs(plan, subject).items():
        if _is_ensemble(subject):
            yield f"  # {name}"
        yield from (f"  {line}" for line in lines.splitlines())


def _table(plan: Plan) -> Iterator[str]:
    """Yield a table of the memory that each part takes, in MB, for the recommended size."""
    gpu = plan.memory.gpu is not None
    heads = ["where memory goes, in MB", "each", "times", "in all", *(["on the GPU each", "in all"] if gpu else [])]
    rows = [heads]
    for scope in Scope:
        rows.append([_EACH[scope]])
        rows += [_row(plan, part, gpu) for part in plan.parts if part.scope is scope]
    needed = plan.needed
    rows.append(["together", "", "", _mega(needed.main), *(["", _mega(needed.gpu or 0)] if gpu else [])])
    first = max(len(row[0]) for row in rows)
    widths = [max(len(row[column]) for row in rows if len(row) > column) for column in range(1, len(heads))]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], widths, strict=False))
        yield "  ".join([row[0].ljust(first), *numbers]).rstrip()


def _row(plan: Plan, part: Part, gpu: bool) -> list[str]:
    number = plan.recommended.number(part)
    row = [f"  {part.name}", _mega(part.main), str(number), _mega(part.main * number)]
    return row + ([_mega(part.gpu), _mega(part.gpu * number)] if gpu else [])


def _mega(size: int) -> str:
    digits = 0 if size >= 100 * MEGABYTE or not size else 2 if size >= MEGABYTE // 10 else 3
    return f"{size / MEGABYTE:.{digits}f}"


def _amount_text(memory: Memory) -> str:
    main = f"{memory.main / GIGABYTE:.1f} GB"
    return main if memory.gpu is None else f"{main} of main memory and {memory.gpu / GIGABYTE:.1f} GB of the GPU"


def _sizes(memory: Memory) -> dict[str, int | None]:
    return {"main": memory.main, "gpu": memory.gpu}
