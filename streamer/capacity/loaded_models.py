"""Estimates the memory of models that are loaded on demand, and computes how much they may take together.

The estimates come from the files of a model, because a measurement takes ten seconds. They count only until the model
is loaded for the first time: then its processes are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamer.capacity.machine_memory import ROOT, machine_memory
from streamer.capacity.model_memory import version_folder
from streamer.capacity.plan import Memory
from streamer.capacity.plan_text import GIGABYTE
from streamer.graphs.model_folder import read_model_folder
from streamer.triton import TritonError
from streamer.triton.repository import config_of, is_public

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
    """Raise TritonError if one of these models does not fit even alone."""
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > room:
        raise TritonError(
            f"{largest} needs about {sizes[largest] / GIGABYTE:.1f} GB, and models may hold {room / GIGABYTE:.1f} GB: "
            "give more with --models-memory, fewer --instances or fewer --slots."
        )
