"""Checks whether a range of instances fits in the memory, for `serve --instances`.

The sizes are those of `streamer plan`. They are measured once for a model and a machine, and remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.base.json_types import JsonObject
from streamer.base.machine import machine_memory
from streamer.base.text import counted
from streamer.bridge.telemetry import logs
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import config_of, instance_kind, version_folder
from streamer.commands.capacity.memory import MeasuringError, model_memory, server_parts, speakers_cost
from streamer.commands.capacity.plan import GIGABYTE, Memory, Part, Scope, Size
from streamer.commands.capacity.session_limit import Capacities, circumstances
from streamer.models.readers import ChosenReader, choose_reader
from streamer.models.speaker_networks import find_speaker_networks


@dataclass(frozen=True)
class Sizes:
    """The parts of a service with one model, with their sizes, and the memory of the machine."""

    parts: Sequence[Part]
    memory: Memory

    def fitting(self, largest: Size) -> int:
        """Return how many instances of this service fit in the memory. Fewer instances have fewer streams."""
        usable, slots = self.memory.usable(), largest.slots
        for number in range(largest.instances, 0, -1):
            size = Size(number, slots, min(largest.streams, number * (slots - 1)))
            if usable.holds(size.needed(self.parts)):
                return number
        return 0


def check_instances(model: Path, repository: Path, most: int, slots: int | None, sessions: int | None) -> None:
    """Raise TritonError if `most` instances of the model in this folder do not fit in the memory.

    If the sizes cannot be measured, as for a model that is not a bundle, a warning says so. `slots`: None for those of
    the model; `sessions`: None for as many as there are slots.
    """
    try:
        config = config_of(model)
        slots = slots or int(config.sequence_batching.oldest.max_candidate_sequences)
        sizes = sizes_of(model, repository, choose_reader())
    except (MeasuringError, TritonError, OSError) as error:
        logs.say(
            f"it is not known whether {most} instances of {model.name} fit in the memory: {error}", logging.WARNING
        )
        return
    streams = most * (slots - 1)
    largest = Size(most, slots, streams if sessions is None else min(streams, sessions))
    if (fitting := sizes.fitting(largest)) < most:
        needed, usable = largest.needed(sizes.parts), sizes.memory.usable()
        place, required, allowed = "main memory", needed.main, usable.main
        if required <= allowed:
            place, required, allowed = "memory of the GPU", needed.gpu or 0, usable.gpu or 0
        raise TritonError(
            f"{most} instances of {model.name} with {counted(slots, 'slot')} need up to "
            f"{required / GIGABYTE:.1f} GB of {place}, and {allowed / GIGABYTE:.1f} GB may be used: "
            f"there is room for {fitting}. Give a smaller range with --instances, or fewer --slots."
        )


def sizes_of(model: Path, repository: Path, reader: ChosenReader | None) -> Sizes:
    """Return the sizes for the model in this folder, and remember them. MeasuringError if they cannot be measured."""
    config = config_of(model)
    batch, kind = max(1, config.max_batch_size), instance_kind(config)
    tells_speakers = find_speaker_networks() is not None
    conditions: JsonObject = {
        **circumstances(model, None, None, reader=reader),
        "batch": batch,
        "kind": kind,
        "speakers": tells_speakers,
    }
    capacities = Capacities()
    entry = capacities.recall(conditions)
    try:
        parts, gpu = [_part(each) for each in entry["parts"]], entry["gpu_memory"]
    except (KeyError, TypeError, ValueError):
        logs.say("measuring how much memory an instance takes; this takes about ten seconds")
        measurement = model_memory(version_folder(model), batch, kind)
        folder = None if reader is None else reader.folder
        voices = speakers_cost()
        others = [] if voices is None else [voices.part]
        parts = [*server_parts(repository, reader=folder), *others, *measurement.parts]
        gpu = measurement.gpu_memory
        capacities.remember(conditions, {"parts": [_as_list(part) for part in parts], "gpu_memory": gpu})
    return Sizes(parts, Memory(machine_memory().size, gpu))


def _as_list(part: Part) -> list[Any]:
    return [part.name, part.scope.value, part.main, part.gpu, part.most]


def _part(values: Sequence[Any]) -> Part:
    name, scope, main, gpu, most = values
    return Part(name, Scope(scope), main, gpu, most)
