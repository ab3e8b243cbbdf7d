"""Checks whether a range of instances fits in the memory, for `serve --instances`.

The sizes are those of `streamer plan`. They are measured once for a model and a machine, and remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamer.base.json_types import JsonObject
from streamer.base.limits import DEFAULT_MODEL
from streamer.base.machine import ROOT, machine_memory
from streamer.base.text import counted
from streamer.bridge.telemetry import logs
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import config_of, instance_kind, is_public, model_config
from streamer.commands.capacity.memory import MeasuringError, model_memory, server_parts, version_folder
from streamer.commands.capacity.plan import GIGABYTE, Memory, Part, Scope, Size
from streamer.commands.capacity.reader_choice import choose_reader
from streamer.commands.capacity.session_limit import Capacities, circumstances
from streamer.models.model_folder import read_model_folder


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
        place, required, allowed = "main memory", needed.main, usable.main
        if required <= allowed:
            place, required, allowed = "memory of the GPU", needed.gpu or 0, usable.gpu or 0
        raise TritonError(
            f"{most} instances of {model.name} with {counted(slots, 'slot')} need up to "
            f"{required / GIGABYTE:.1f} GB of {place}, and {allowed / GIGABYTE:.1f} GB may be used: "
            f"there is room for {fitting}. Give a smaller range with --instances, or fewer --slots."
        )


def _sizes(model: Path, repository: Path, batch: int, kind: str) -> Sizes:
    reader = choose_reader()
    name, folder = (None, None) if reader is None else reader
    conditions: JsonObject = {**circumstances(model, None, None), "batch": batch, "kind": kind, "reader": name}
    capacities = Capacities()
    entry = capacities.recall(conditions)
    try:
        parts, gpu = [_part(each) for each in entry["parts"]], entry["gpu_memory"]
    except (KeyError, TypeError, ValueError):
        logs.say("measuring how much memory an instance takes; this takes about ten seconds")
        measurement = model_memory(version_folder(model), batch, kind)
        parts, gpu = [*server_parts(repository, reader=folder), *measurement.parts], measurement.gpu_memory
        capacities.remember(conditions, {"parts": [_as_list(part) for part in parts], "gpu_memory": gpu})
    return Sizes(parts, Memory(machine_memory().size, gpu))


def _as_list(part: Part) -> list[Any]:
    return [part.name, part.scope.value, part.main, part.gpu, part.most]


def _part(values: Sequence[Any]) -> Part:
    name, scope, main, gpu, most = values
    return Part(name, Scope(scope), main, gpu, most)


# Estimates the memory of models that are loaded on demand, and computes how much they may take together.

# What `streamer plan` measures for Triton and the bridge, rounded up.
SERVICE_BYTES: Final = 250_000_000
# A process without its model: onnxruntime for a public model, torch for others.
PUBLIC_BYTES: Final = 150_000_000
OTHER_BYTES: Final = 600_000_000


def memory_for_models(gigabytes: float | None, root: Path = ROOT) -> int:
    """Return how many bytes models may hold: the given gigabytes, or else what this machine has for them."""
    if gigabytes is not None:
        return round(gigabytes * GIGABYTE)
    return max(0, Memory(machine_memory(root).size).usable().main - SERVICE_BYTES)


def expected_memory(model: Path, instances: int | None, slots: int | None) -> int:
    """Return about how many bytes the processes of the model in this folder will hold. TritonError for an ensemble."""
    config = config_of(model)
    if config.HasField("ensemble_scheduling"):
        raise TritonError(f"{model.name} is an ensemble: it can only be loaded at the start (--load start)")
    number = instances or sum(group.count for group in config.instance_group) or 1
    slots = slots or int(config.sequence_batching.oldest.max_candidate_sequences)
    if is_public(model):
        public = read_model_folder(model)
        graphs = [
            public.encoder,
            *([public.transducer.predictor, public.transducer.joiner] if public.transducer else []),
        ]
        weights = sum(graph.path.stat().st_size for graph in graphs)
        return number * (PUBLIC_BYTES + weights + slots * public.layout.state_bytes)
    weights = sum(path.stat().st_size for path in version_folder(model).rglob("*") if path.is_file())
    return number * (OTHER_BYTES + weights)


def check_room(sizes: Mapping[str, int], room: int) -> None:
    """Raise TritonError if one of these models does not fit beside the default one, which is always loaded."""
    default = sizes[DEFAULT_MODEL]
    largest = max((name for name in sizes if name != DEFAULT_MODEL), key=lambda name: sizes[name], default="")
    needed, need = (
        default + sizes.get(largest, 0),
        f"{DEFAULT_MODEL}, which is always loaded, and {largest} together need",
    )
    if default > room:
        needed, need = default, f"{DEFAULT_MODEL} needs"
    if needed > room:
        raise TritonError(
            f"{need} about {needed / GIGABYTE:.1f} GB, and models may hold {room / GIGABYTE:.1f} GB: "
            "give more with --models-memory, fewer --instances or fewer --slots."
        )
