"""Chooses how many instances and slots the models of a service have, unless its settings say so.

There is an instance for each processor, or for each two if the threads of an instance take turns at batches, as far as
the memory carries them. Estimates say at once whether it carries all of them. Only where it may not, the sizes are
measured, and remembered.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.machine import ROOT, machine_memory, processor_time
from streamer.base.text import counted
from streamer.bridge.triton import TritonError
from streamer.bridge.triton.repository import computes_on_gpu, config_of, takes_turns
from streamer.bridge.triton.server import REGION_BYTES
from streamer.commands.capacity.estimates import WORKER_BYTES, expected_memory
from streamer.commands.capacity.plan import (
    FEWEST_SLOTS,
    GIGABYTE,
    Memory,
    Size,
    TooSmall,
    best_size,
    largest,
    with_workers,
)
from streamer.models.needs import PUBLIC_BYTES, SERVICE_BYTES, STREAM_BYTES
from streamer.models.readers import ChosenReader

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

# One process of the bridge carries no more sessions than so many instances do, if all have a second pass.
MOST_INSTANCES: Final = 16
# As many threads take turns at the batches of an instance: so many were measured.
TAKING_TURNS: Final = 2
_SHARED_MEMORY: Final = Path("dev/shm")


@dataclass(frozen=True)
class DefaultSize:
    """How many instances each model gets, with how many slots each, and why so many."""

    instances: int
    slots: int
    why: str

    def sentence(self) -> str:
        """Say what was chosen, and how to choose something else."""
        numbers = f"{counted(self.instances, 'instance')} of each model with {counted(self.slots, 'slot')} each"
        return f"{numbers}: {self.why} (--instances and --slots change this)"


def choose_size(
    models: Sequence[Path],
    repository: Path,
    reader: ChosenReader | None,
    *,
    slots: int | None = None,
    most_slots: int | None = None,
    sessions: int | None = None,
    workers: int = 1,
    root: Path = ROOT,
) -> DefaultSize | None:
    """Choose the size of a service with the models in these folders; None if their config.pbtxt should decide.

    That is so for a model that asks for several instances, an ensemble, and a model on a GPU, which one process keeps
    busy. `slots`: the number in each instance, if it is given. Otherwise there are as many as the memory carries, at
    most `most_slots`, or as many as the models have. `sessions`: the most at a time, if there is a limit. `workers`:
    how many processes of the bridge there are.
    """
    configs = [config_of(model) for model in models]
    if any(_has_own_size(config) for config in configs):
        return None
    each = processors_each(models, root)
    usual = each * min(int(config.sequence_batching.oldest.max_candidate_sequences) for config in configs)
    wanted = slots or most_slots or usual
    most, why = most_instances(root, sessions, workers, each)
    memory = Memory(machine_memory(root).size)
    usable = memory.usable().main
    if _estimate(models, reader, most, wanted, workers) <= usable:
        return DefaultSize(most, wanted, why)
    few = f"{usable / GIGABYTE:.1f} GB of memory may be used"
    if len(models) > 1:
        numbers = range(most, 1, -1)
        fitting = (number for number in numbers if _estimate(models, reader, number, wanted, workers) <= usable)
        return DefaultSize(next(fitting, 1), wanted, few)
    from streamer.commands.capacity.instance_limit import Sizes, sizes_of
    from streamer.commands.capacity.memory import MeasuringError

    try:
        parts = with_workers(sizes_of(models[0], repository, reader).parts, workers)
        if slots is not None:
            instances = max(1, Sizes(parts, memory).fitting(Size(most, slots, most * (slots - 1))))
        else:
            # More slots than the usual ones are of no use if they leave no room for another instance.
            instances = best_size(parts, memory, most, min(wanted, usual)).instances
            # Each further worker needs a slot for its probe, which the caller adds.
            wanted = max(FEWEST_SLOTS, min(wanted, largest(parts, memory, instances).slots - (workers - 1)))
    except (MeasuringError, TritonError, OSError) as error:
        return DefaultSize(1, wanted, f"it is not known whether more fit in the memory, because {error}")
    except TooSmall:
        return DefaultSize(1, FEWEST_SLOTS, f"{few}, and that is too little")
    return DefaultSize(instances, wanted, few)


def _has_own_size(config: ModelConfig) -> bool:
    groups = config.instance_group
    if config.HasField("ensemble_scheduling") or not config.sequence_batching.HasField("oldest"):
        return True
    if len(groups) > 1 or any(group.count > 1 for group in groups):
        return True
    return computes_on_gpu(config)


def processors_each(models: Sequence[Path], root: Path = ROOT) -> int:
    """Return on how many processors of this machine an instance of each of these models should compute."""
    return min(TAKING_TURNS, max(1, int(processor_time(root)))) if all(map(takes_turns, models)) else 1


def most_instances(root: Path = ROOT, sessions: int | None = None, workers: int = 1, each: int = 1) -> tuple[int, str]:
    """Return how many instances the processors, the shared memory and the sessions ask for, and which of them did.

    `each`: on how many processors an instance computes.
    """
    processors = "processor" if each == 1 else f"{each} processors"
    bridge = "one process of the bridge (--workers)" if workers == 1 else f"{workers} workers"
    reasons = [
        (max(1, int(processor_time(root)) // each), f"one for each {processors} that may be used"),
        (MOST_INSTANCES * workers, f"no more are of use to {bridge}"),
    ]
    if sessions is not None:
        reasons.append((sessions, f"there are never more than {counted(sessions, 'session')}"))
    shared = root / _SHARED_MEMORY
    if shared.is_dir():  # half of it, because the regions grow for long requests
        room = shutil.disk_usage(shared).free // (2 * REGION_BYTES)
        reasons.append((max(1, room), f"{shared} has no room for more"))
    return min(reasons, key=lambda reason: reason[0])


def _estimate(models: Sequence[Path], reader: ChosenReader | None, instances: int, slots: int, workers: int) -> int:
    """Return about how much memory the service takes at most."""
    reading = 0
    if reader is not None:
        reading = PUBLIC_BYTES + 2 * sum(path.stat().st_size for path in reader.folder.rglob("*") if path.is_file())
    streams = instances * (slots - 1) * STREAM_BYTES  # of all models together, because each may have all sessions
    further = 0 if workers == 1 else workers * WORKER_BYTES
    processes = sum(expected_memory(model, instances, slots + workers - 1) for model in models)
    return SERVICE_BYTES + further + reading + streams + processes
