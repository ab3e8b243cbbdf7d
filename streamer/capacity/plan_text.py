"""Writes a plan: as a table and sentences for a reader, or as an object for a program."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Final

from streamer.capacity.plan import KEPT_FREE, Limit, Memory, Part, Plan, Scope
from streamer.text.counts import counted

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


def command(plan: Plan, subject: Subject) -> str:
    """Return the line that starts the recommended service."""
    size = plan.recommended
    sessions = "auto" if plan.carried is None else str(size.streams)
    numbers = {"--instances": size.instances, "--slots": size.slots, "--sessions": sessions}
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


def content(plan: Plan, subject: Subject) -> dict[str, Any]:
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
    sessions = f"{'up to ' * (plan.carried is None)}{counted(size.streams, 'session')}"
    return "\n".join(
        [
            f"{subject.model} ({subject.bundle}) on {place}",
            f"memory: {_amount_text(plan.memory)} ({subject.memory})",
            f"to use: {_amount_text(usable)}, because {round(100 * KEPT_FREE)} % stays free",
            "",
            *_table(plan),
            "",
            f"recommended: {counted(size.instances, 'instance')}, {counted(size.slots, 'slot')} in each, {sessions}",
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
    spare = size.instances * (size.slots - 1) - size.streams
    more = ", and more let sessions continue when an instance fails" if spare > size.instances else ""
    yield f"{counted(size.slots, 'slot')}: one in each instance is for the probe of the service{more}."
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
