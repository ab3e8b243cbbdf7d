"""Estimates the memory of models from their files, at once: how much they may take together, and whether they fit.

`memory.py` measures it instead, which takes ten seconds. So these estimates are rather too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamer.base.limits import DEFAULT_MODEL
from streamer.base.machine import ROOT, machine_memory
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import config_of, is_public, version_folder
from streamer.commands.capacity.plan import GIGABYTE, Memory
from streamer.models.model_folder import read_any_folder
from streamer.models.needs import PUBLIC_BYTES, SERVICE_BYTES

# A worker, or the process that starts them, without sessions, rounded up.
WORKER_BYTES: Final = 100_000_000
# A process of another model than a public one, without the model: torch.
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
        public = read_any_folder(model)
        weights = sum(graph.path.stat().st_size for graph in public.graphs)
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
