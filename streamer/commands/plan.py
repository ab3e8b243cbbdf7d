"""The command `streamer plan`: recommends how many instances, slots and sessions a machine should serve, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamer.base.limits import MOST_WORKERS, OFF
from streamer.base.machine import machine_memory
from streamer.base.text import as_sentence, counted, json_text
from streamer.bridge.triton import MODEL, TritonError
from streamer.bridge.triton.repository import (
    asr_repository,
    config_of,
    instance_kind,
    is_public,
    models_in,
    parts_of,
    reconfigure,
    version_folder,
)
from streamer.commands.arguments import USAGE, argument, count
from streamer.commands.capacity.plan import (
    FEWEST_SLOTS,
    Memory,
    Part,
    Plan,
    TooSmall,
    best_size,
    largest,
    plan,
    with_workers,
)
from streamer.commands.capacity.session_limit import SLOTS, USUAL_SLOTS, Capacities, Finding, circumstances
from streamer.commands.settings.kinds import FilePath, Number, Whole
from streamer.commands.settings.served_models import ModelList, ServedModel, first_folder_error
from streamer.models.library import LibraryError, ModelLibrary
from streamer.models.model_folder import read_any_folder
from streamer.models.needs import KEPT_FREE
from streamer.models.readers import AUTO, ChosenReader, choose_reader, whisper_models
from streamer.models.whisper_folder import holds_whisper

if TYPE_CHECKING:
    from streamer.commands.capacity.memory import ModelMemory
    from streamer.commands.capacity.plan import Subject

GIGABYTE: Final = 1_000_000_000

EXAMPLES: Final = """\
The sizes are measured, not assumed: the model is loaded once with few slots and once with many, in a process of its
own. A measurement with real speech then says how many sessions the processors carry, as `serve --sessions auto` does,
and is remembered for both. All this takes about a minute, when the machine has nothing else to do. 20 % of the
memory is kept free. docs/how-to/capacity.md explains more.

examples:
  streamer plan                            for all memory of this machine (or container, or GPU)
  streamer plan --memory 4 --instances 2   for 4 GB and two instances
  streamer plan --workers auto             for several processes of the bridge
  streamer plan --no-measure               only the memory, and what was measured before
  streamer plan --repository models --model mine_1
  streamer plan --model asr_heads          the recogniser in steps: the memory of each step
  streamer plan --json | jq .recommended

The exit status is 1 if not even one stream fits in the memory, or nothing can be measured."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `streamer plan`."""
    add = parser.add_argument
    add(
        "--model",
        type=argument(ModelList()),
        metavar="MODEL",
        help="the name of a model in the repository or on this machine (`streamer models`), or the folder of one "
        f"({MODEL}, or the only model that there is)",
    )
    add(
        "--reader",
        default=AUTO,
        metavar="NAME",
        help=f"the reader of ended segments, as for `serve`: {AUTO}, {OFF}, a name, or the folder of a Whisper model "
        f"({AUTO})",
    )
    add(
        "--repository",
        type=argument(FilePath()),
        metavar="FOLDER",
        help="the model repository (the one shipped with Streamer)",
    )
    add(
        "--memory",
        type=argument(Number(0.001, 1_000_000, "GB", unit="GB")),
        metavar="GB",
        help="how much memory there is, in GB: of the GPU if the model computes on one, otherwise main memory "
        "(all of this machine, or what its container may use)",
    )
    add(
        "--instances",
        type=count,
        metavar="N",
        help="how many instances (one for each processor, for each two with a public model, or as in config.pbtxt on a "
        "GPU)",
    )
    add(
        "--workers",
        type=argument(Whole(1, MOST_WORKERS, f"N|{AUTO}", word=AUTO)),
        default=1,
        metavar=f"N|{AUTO}",
        help=f"how many processes of the bridge, as for `serve`; '{AUTO}' for as many as the processors keep busy (1)",
    )
    add(
        "--no-measure",
        action="store_true",
        help="do not measure how many sessions the processors carry; a result that is remembered is still used",
    )
    add("--json", action="store_true", help="print one JSON object, with sizes in bytes")


def run(options: argparse.Namespace) -> int:
    """Print the recommendation. Return the exit status."""
    from streamer.bridge.telemetry import logs

    logs.configure("text", "error")  # hides what the measurement of sessions reports
    try:
        model = _model(options.model, options.repository)
    except (TritonError, ValueError) as error:
        print(f"streamer: {as_sentence(error)}", file=sys.stderr)
        return USAGE
    try:
        result, subject = _make_plan(model, options)
    except ImportError as error:
        from streamer.base.package import install_command

        return _fail(f"a plan needs the package {error.name}: {install_command('embedded')}")
    except TritonError as error:
        return _fail(error)
    if result is None or subject is None:
        return 1
    from streamer.commands.capacity.plan import content, text

    print(json_text(content(result, subject), indent=1) if options.json else text(result, subject))
    return 0


@dataclass(frozen=True)
class _Model:
    """The model of the plan, and where it is."""

    name: str
    folder: Path
    repository: Path
    serve: Sequence[str]  # the arguments of `serve` that choose it
    whisper: Path | None = None  # the folder of the reader, for a model that reads alone


def _model(choices: Sequence[ServedModel] | None, repository: Path | None) -> _Model:
    """Find the model. TritonError or ValueError if there is none."""
    folder = repository or asr_repository()
    if choices is not None and len(choices) > 1:
        raise ValueError("--model must be one model: make a plan for each, and add up the memory")
    serve = ["--repository", str(repository)] if repository else []
    if choices is not None and choices[0].folder is not None:
        if error := first_folder_error(choices):
            raise ValueError(f"--model {error}")
        path = choices[0].folder.resolve()
        if holds_whisper(path):
            return _alone(choices[0].model, path, folder, [*serve, "--model", str(path)])
        return _Model(choices[0].model, path, folder, [*serve, "--model", str(path)])
    names = models_in(folder)
    name = choices[0].model if choices else MODEL if MODEL in names else names[0]
    if choices is None and name != MODEL and len(names) > 1:
        raise ValueError(f"{folder} has several models: choose one with --model ({', '.join(names)})")
    if name not in names and (library_folder := ModelLibrary().find(name)):
        return _Model(name, library_folder, folder, [*serve, "--model", name])
    if name not in names and (whisper := whisper_models().get(name)):
        return _alone(name, whisper, folder, [*serve, "--model", name])
    if name not in names:
        raise ValueError(f"there is no model {name} in {folder}, only {', '.join(names)}")
    return _Model(name, folder / name, folder, [*serve, *(["--model", name] if name != MODEL else [])])


def _alone(name: str, whisper: Path, repository: Path, serve: Sequence[str]) -> _Model:
    """Return the shipped recogniser, whose words are those of this reader alone."""
    return _Model(name, asr_repository() / MODEL, repository, serve, whisper)


def _reader(model: _Model, wanted: str) -> ChosenReader | None:
    """Return the reader of the plan. LibraryError or ValueError if it cannot be had."""
    if model.whisper is not None:
        return ChosenReader(f"{model.name}, alone", model.whisper)
    reader = choose_reader(wanted)
    if reader is None and wanted not in (AUTO, OFF):
        raise ValueError(f"the reader {wanted} is not on this machine: `streamer models get {wanted}` fetches it")
    return reader


def _make_plan(model: _Model, options: argparse.Namespace) -> tuple[Plan, Subject] | tuple[None, None]:
    from streamer.commands.capacity.default_size import most_instances, processors_each
    from streamer.commands.capacity.memory import (
        MeasuringError,
        model_memory,
        server_parts,
        speakers_cost,
        steps_memory,
        steps_of,
    )
    from streamer.commands.capacity.plan import InstanceConfig, Subject

    config = config_of(model.folder)
    steps = steps_of(config, model.repository)
    for each in [step.config for step in steps if step.has_slots] or [config]:
        reconfigure(each, instances=options.instances or 1, slots=FEWEST_SLOTS)  # TritonError without such numbers
    configs = [InstanceConfig(step.name, step.kind, step.has_slots) for step in steps]
    print("streamer: measuring how much memory the model takes", file=sys.stderr)
    try:
        if steps:
            measurement = steps_memory(steps)
        else:
            kind = instance_kind(config)
            configs = [InstanceConfig(model.name, kind)]
            measurement = model_memory(version_folder(model.folder), max(1, config.max_batch_size), kind)
        reader = _reader(model, options.reader)
        folder = None if reader is None else reader.folder
        voices = speakers_cost()
        others = [] if voices is None else [voices.part]
        parts = [*server_parts(model.repository, len(configs), folder), *others, *measurement.parts]
        workers, why_workers = _workers(options.workers)
        parts = with_workers(parts, workers)
    except (MeasuringError, LibraryError, ValueError, OSError) as error:
        return _no_plan(error)
    here = Memory(machine_memory().size, measurement.gpu_memory)
    memory, source = _memory(options.memory, measurement)
    instances = options.instances
    each = 1 if instances else processors_each([model.folder])
    reason = "as --instances says"
    try:
        if instances is None and measurement.gpu is not None:
            first = steps[0].config if steps else config
            instances = first.instance_group[0].count if first.instance_group else 1
            reason = "as in config.pbtxt; one process keeps a GPU busy"
        elif instances is None:
            number, reason = most_instances(workers=workers, each=each)
            instances = best_size(parts, memory, number, each * USUAL_SLOTS).instances
            if instances < number:
                reason = "the memory has no room for more"
        largest(parts, memory, instances, workers)
        carried = _session_limit(model, parts, here, instances, reader, workers, measure=not options.no_measure)
        result = plan(parts, memory, instances, carried, workers, each * USUAL_SLOTS)
    except TooSmall as small:
        return _no_plan(_too_small(small, memory, instances or 1))
    share = None if voices is None else voices.share
    costs = read_any_folder(model.folder).costs if is_public(model.folder) else ()
    subject = Subject(
        model.name,
        measurement.name,
        measurement.gpu,
        configs,
        source,
        model.serve,
        reason,
        why_workers,
        costs,
        share,
    )
    return result, subject


def _workers(wanted: int | str) -> tuple[int, str]:
    """Return how many workers there are, and why."""
    if isinstance(wanted, int):
        return wanted, "as --workers says"
    from streamer.base.machine import processor_time
    from streamer.commands.serve import PROCESSORS_PER_WORKER, workers_for

    workers = workers_for(processor_time(), embedded=True)
    return workers, f"one for {PROCESSORS_PER_WORKER} processors, because the recogniser needs most of them"


def _memory(gigabytes: float | None, measurement: ModelMemory) -> tuple[Memory, str]:
    """Return the memory for the plan, and where its size comes from."""
    machine = machine_memory()
    of_machine = "what this container may use" if machine.limited else "all of this machine"
    if gigabytes is None:
        return Memory(machine.size, measurement.gpu_memory), of_machine
    size = round(gigabytes * GIGABYTE)
    if measurement.gpu is None:
        return Memory(size), "--memory"
    return Memory(machine.size, size), f"--memory for the GPU, otherwise {of_machine}"


def _session_limit(
    model: _Model,
    parts: Sequence[Part],
    here: Memory,
    instances: int,
    reader: ChosenReader | None,
    workers: int,
    *,
    measure: bool,
) -> int | None:
    """Return how many sessions the processors carry, as `serve --sessions auto` measures and remembers it."""
    try:
        slots = min(SLOTS, largest(parts, here, instances).slots)
    except TooSmall:
        return None
    own_parts = parts_of(model.folder, model.repository)
    conditions = circumstances(model.folder, instances, slots, own_parts, reader=reader, workers=workers)
    sessions = Capacities().get(conditions)
    if sessions is not None or not measure:
        return sessions
    return _measure_sessions(model, instances, slots, reader, Finding(conditions, workers))


def _measure_sessions(
    model: _Model, instances: int, slots: int, reader: ChosenReader | None, finding: Finding
) -> int | None:
    from streamer.base.limits import DEFAULT_MODEL
    from streamer.bridge.triton.link import LinkError
    from streamer.bridge.triton.server import TritonServer
    from streamer.bridge.upstreams.admission import Models
    from streamer.bridge.upstreams.supervision import Tritons
    from streamer.commands.interrupt import run_until_signal

    results: list[int | None] = []
    folders = {} if model.folder == model.repository / model.name else {model.name: model.folder}
    server = TritonServer(
        model.repository,
        models=[model.name],
        folders=folders,
        instances=instances,
        slots=slots,
        reader=None if reader is None else reader.folder,
        reads_alone=[model.name] if model.whisper is not None else [],
        private=True,
    )

    async def work() -> int:
        models = Models(Tritons([server]), {DEFAULT_MODEL: model.name})
        try:
            await models.open()
            results.append(await finding(models))
        except LinkError as error:
            raise TritonError(f"the sessions cannot be measured: {error}") from error
        finally:
            await models.close()
        return 0

    server.start()
    try:
        if status := run_until_signal(work()):
            raise SystemExit(status)
    finally:
        server.stop()
    return results[0]


def _too_small(small: TooSmall, memory: Memory, instances: int) -> str:
    """Say how much memory is missing for a single stream."""
    many = f"{counted(instances, 'instance')} with"
    streams = f"{many} one stream needs" if instances == 1 else f"{many} a stream each need"
    needs = f"with {round(100 * KEPT_FREE)} % kept free, {streams}"
    if memory.holds(Memory(small.needed.main)):
        available, required, of_gpu = memory.gpu or 0, small.needed.gpu or 0, " of the GPU's memory"
    else:
        available, required, of_gpu = memory.main, small.needed.main, ""
    return f"{available / GIGABYTE:.2f} GB{of_gpu} is too little: {needs} {required / GIGABYTE:.2f} GB"


def _no_plan(reason: object) -> tuple[None, None]:
    _fail(reason)
    return None, None


def _fail(reason: object) -> int:
    print(f"streamer: {as_sentence(reason)}", file=sys.stderr)
    return 1
