"""How many instances the memory has room for, for `serve --instances` with a range.

The sizes are those of `streamer plan`. They are measured once for a model and a machine, and remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.bridge.telemetry import logs
from streamer.capacity.machine_memory import machine_memory
from streamer.capacity.model_memory import MeasuringError, model_memory, server_parts, version_folder
from streamer.capacity.plan import Memory, Part, Scope, Size
from streamer.capacity.plan_text import GIGABYTE
from streamer.capacity.session_limit import Capacities, circumstances
from streamer.text.counts import counted
from streamer.triton import TritonError
from streamer.triton.model_config import instance_kind, model_config


@dataclass(frozen=True)
class Sizes:
    """What the parts of a service with one model take, and how much memory there is."""

    parts: Sequence[Part]
    memory: Memory

    def fitting(self, largest: Size) -> int:
        """Return how many of the instances of this size fit. Fewer of them have fewer streams."""
        usable, slots = self.memory.usable(), largest.slots
        for number in range(largest.instances, 0, -1):
            size = Size(number, slots, min(largest.streams, number * (slots - 1)))
            if usable.holds(size.needed(self.parts)):
                return number
        return 0


def check_instances(model: Path, repository: Path, most: int, slots: int | None, sessions: int | None) -> None:
    """Raise TritonError if the memory has no room for so many instances of a model in this folder.

    If that cannot be found out, as for a model that is not a bundle, a warning says so. `slots`: None for the model's
    own; `sessions`: None for as many as there are slots.
    """
    try:
        config = model_config(model)
        slots = slots or int(config.sequence_batching.oldest.max_candidate_sequences)
        sizes = _sizes(model, repository, max(1, config.max_batch_size), instance_kind(config))
    except (MeasuringError, TritonError, OSError) as error:
        logs.say(
            f"it is not known whether {most} instances of {model.name} fit in the memory: {error}", logging.WARNING
        )
        return
    streams = most * (slots - 1)
    largest = Size(most, slots, streams if sessions is None else min(streams, sessions))
    if (fitting := sizes.fitting(largest)) < most:
        needed, usable = largest.needed(sizes.parts), sizes.memory.usable()
        place, asked, there = "main memory", needed.main, usable.main
        if asked <= there:
            place, asked, there = "memory of the GPU", needed.gpu or 0, usable.gpu or 0
        raise TritonError(
            f"{most} instances of {model.name} with {counted(slots, 'slot')} need up to {asked / GIGABYTE:.1f} GB of "
            f"{place}, and {there / GIGABYTE:.1f} GB may be used: there is room for {fitting}. Give a smaller range "
            "with --instances, or fewer --slots."
        )


def _sizes(model: Path, repository: Path, batch: int, kind: str) -> Sizes:
    known: Mapping[str, Any] = {**circumstances(model, None, None), "batch": batch, "kind": kind}
    capacities = Capacities()
    found = capacities.recall(known)
    try:
        parts, gpu = [_part(each) for each in found["parts"]], found["gpu_memory"]
    except (KeyError, TypeError, ValueError):
        logs.say("measuring how much memory an instance takes; this takes about ten seconds")
        measured = model_memory(version_folder(model), batch, kind)
        parts, gpu = [*server_parts(repository), *measured.parts], measured.gpu_memory
        capacities.remember(known, {"parts": [_told(part) for part in parts], "gpu_memory": gpu})
    return Sizes(parts, Memory(machine_memory().size, gpu))


def _told(part: Part) -> list[Any]:
    return [part.name, part.scope.value, part.main, part.gpu, part.most]


def _part(told: Sequence[Any]) -> Part:
    name, scope, main, gpu, most = told
    return Part(name, Scope(scope), main, gpu, most)
