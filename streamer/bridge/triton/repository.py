"""Triton's model repository: finds it, lists its models, and copies it with other settings in `config.pbtxt`."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from streamer.base.limits import READER, SPEAKERS
from streamer.base.package import install_command, shipped
from streamer.base.torch_import import gpu_is_there
from streamer.bridge.triton import MODEL, TritonError
from streamer.models.model_folder import holds_graphs
from streamer.models.moonshine_folder import holds_moonshine

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig


VERSION = "1"
COMPILED = "__pycache__"
BUNDLE = "bundle"  # the parameter that names the folder with the weights
READS_ALONE = "reads_alone"  # the parameter that leaves the words of all streams to the reader
GPU_BATCH = 2048  # the largest batch that the recogniser computes as one on a GPU
_ADAPTER = "from streamer.engine.adapters.event_model import TritonPythonModel as TritonPythonModel\n"


def asr_repository() -> Path:
    """Return the folder `asr_repo` of this version: in the package, or beside it in a checkout."""
    try:
        return shipped("asr_repo")
    except FileNotFoundError as error:
        raise TritonError(str(error)) from error


def models_in(repository: Path) -> tuple[str, ...]:
    """Return the names of the models of a repository."""
    names = tuple(sorted(path.parent.name for path in repository.glob(f"*/{CONFIG}")))
    if not names:
        raise TritonError(f"{repository} is not a model repository: no folder in it has a {CONFIG}")
    return names


def steps_in(repository: Path) -> frozenset[str]:
    """Return the names of the models that are steps of ensembles in a repository."""
    ensembles = (model_config(path.parent) for path in repository.glob(f"*/{CONFIG}"))
    return frozenset(step.model_name for config in ensembles for step in config.ensemble_scheduling.step)


def parts_of(model: Path, repository: Path) -> list[Path]:
    """Return the folders outside an ensemble that belong to it: those of its steps, and those of their weights."""
    if not (model / CONFIG).is_file():
        return []
    folders: dict[Path, None] = {}  # in order, each once
    for step in model_config(model).ensemble_scheduling.step:
        folder = repository / step.model_name
        config = model_config(folder)
        folders[folder] = None
        if BUNDLE in config.parameters:
            folders[(folder / config.parameters[BUNDLE].string_value).resolve()] = None
    return list(folders)


def models_to_serve(repository: Path) -> tuple[str, ...]:
    """Return the names of the models of a repository that sessions may use: not those that only help others."""
    others = steps_in(repository) | {READER, SPEAKERS}
    return tuple(name for name in models_in(repository) if name not in others)


def models_alone(repository: Path) -> tuple[str, ...]:
    """Return the names of the models of a repository that are neither ensembles nor steps of ensembles.

    The image of Triton loads these (`deploy/images/models-entry`). A reader without weights stops nothing.
    """
    steps = steps_in(repository)
    return tuple(
        name
        for name in models_in(repository)
        if name not in steps and not model_config(repository / name).HasField("ensemble_scheduling")
    )


def link_repository(
    repository: Path, copy: Path, models: Sequence[str], *, instances: int | None, slots: int | None
) -> None:
    """Make `copy` a repository of links, in which `models` have these numbers of instances and of slots per instance.

    The steps of ensembles get these numbers too, because Triton loads them with their ensemble.
    """
    copy.mkdir()
    steps = steps_in(repository)
    for model in repository.iterdir():
        if model.name in steps:
            link_model(model, copy / model.name, instances=instances, slots=slots, is_step=True)
        elif model.name in models:
            link_model(model, copy / model.name, instances=instances, slots=slots)
        else:
            (copy / model.name).symlink_to(model)


def link_model(
    model: Path,
    copy: Path,
    *,
    instances: int | None = None,
    slots: int | None = None,
    is_step: bool = False,
    reads_alone: bool = False,
) -> None:
    """Make `copy` a model of links with these numbers and the name of its folder. It replaces an older copy.

    `reads_alone`: a reader has the words of all of its streams.

    None keeps a number. If nothing changes, the copy is a single link. An ensemble has no such numbers, and a step of
    an ensemble may have no slots. The folder of a public model becomes a model with the shipped configuration.
    """
    if is_public(model):
        _public_model(model.resolve(), copy, instances=instances, slots=slots)
        return
    config = model_config(model)
    if config.HasField("ensemble_scheduling"):
        instances = slots = None
    elif is_step and not config.HasField("sequence_batching"):
        slots = None
    name = copy.name if copy.name != model.name else None
    new = batched_for_device(reconfigure(config, name=name, instances=instances, slots=slots))
    if reads_alone:
        new.parameters[READS_ALONE].string_value = "true"
    _clear(copy)
    if new == config:
        copy.symlink_to(model)
        return
    copy.mkdir()
    for path in model.iterdir():
        if path.name != CONFIG:
            (copy / path.name).symlink_to(path)
    (copy / CONFIG).write_text(config_text(new), encoding="utf-8")


def link_reader(reader: Path, weights: Path, copy: Path, *, instances: int) -> None:
    """Make `copy` the model of links that reads segments with the weights in this folder."""
    config = reconfigure(model_config(reader), instances=instances)
    config.parameters[BUNDLE].string_value = BUNDLE
    _clear(copy)
    copy.mkdir()
    for path in reader.iterdir():
        if path.name != CONFIG:
            (copy / path.name).symlink_to(path)
    # A link, because Triton's Python processes know only ASCII paths.
    (copy / BUNDLE).symlink_to(weights.resolve())
    (copy / CONFIG).write_text(config_text(config), encoding="utf-8")


def make_resizable(copy: Path, instances: int) -> None:
    """Change a model of links so that the number of its instances can change while it runs.

    Triton keeps the instances of a loaded model only if nothing in its folder has changed. Python would create a folder
    for compiled modules there, so this puts a file of the same name there.
    """
    config = set_apart(model_config(copy), instances)
    _unlink_folder(copy, CONFIG)
    for version in list(copy.iterdir()):
        if version.is_dir() and version.name.isdecimal():
            _unlink_folder(version, COMPILED)
            (version / COMPILED).touch()
    (copy / CONFIG).write_text(config_text(config), encoding="utf-8")


def _unlink_folder(link: Path, without: str) -> None:
    """Replace a link to a folder by a folder of links to all of its files except one."""
    if not link.is_symlink():
        return
    folder = link.resolve()
    link.unlink()
    link.mkdir()
    for path in folder.iterdir():
        if path.name != without:
            (link / path.name).symlink_to(path)


def is_public(model: Path) -> bool:
    """Return whether this is the folder of a public model, and not of a model of Triton."""
    return not (model / CONFIG).is_file() and holds_graphs(model)


def takes_turns(model: Path) -> bool:
    """Return whether an instance of this model has threads on a CPU that take turns at whole batches."""
    return is_public(model) and not holds_moonshine(model)


def version_folder(model: Path) -> Path:
    """Return the folder of the newest version of a model, which is the one that Triton loads.

    A public model has no versions.
    """
    if is_public(model):
        return model
    versions = [path for path in model.iterdir() if path.is_dir() and path.name.isdecimal()]
    if not versions:
        raise TritonError(f"{model} has no folder of a version, such as {model / VERSION}")
    return max(versions, key=lambda path: int(path.name))


def config_of(model: Path) -> ModelConfig:
    """Return the configuration of the model in this folder. A public model has the shipped one."""
    return model_config(asr_repository() / MODEL if is_public(model) else model)


def _clear(copy: Path) -> None:
    if copy.is_symlink():
        copy.unlink()
    elif copy.is_dir():
        shutil.rmtree(copy)


def _public_model(folder: Path, copy: Path, *, instances: int | None, slots: int | None) -> None:
    """Make `copy` a model of Triton, with the shipped configuration, that computes the public model in this folder."""
    config = reconfigure(config_of(folder), name=copy.name, instances=instances, slots=slots)
    config.parameters[BUNDLE].string_value = BUNDLE
    _clear(copy)
    (copy / VERSION).mkdir(parents=True)
    # A link, because Triton's Python processes know only ASCII paths.
    (copy / BUNDLE).symlink_to(folder)
    (copy / CONFIG).write_text(config_text(config), encoding="utf-8")
    (copy / VERSION / "model.py").write_text(_ADAPTER, encoding="utf-8")


# Reads and writes a model's `config.pbtxt` with protobuf, and changes its name, its instances and their slots.

CONFIG = "config.pbtxt"
_MESSAGES = "tritonclient.grpc.model_config_pb2"


def model_config(folder: Path) -> ModelConfig:
    """Read the configuration of the model in this folder. If the file has no name, the model has the folder's name."""
    path = folder / CONFIG
    messages = _messages()
    from google.protobuf import text_format  # type: ignore[import-untyped]

    try:
        config = text_format.Parse(path.read_text(encoding="utf-8"), messages.ModelConfig())
    except FileNotFoundError:
        raise TritonError(f"{path} does not exist: the repository has no such model") from None
    except OSError as error:
        raise TritonError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TritonError(f"{path} is not UTF-8 text") from error
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        reason = str(error).removeprefix(f"{line}:{column} : ").rstrip(".")
        raise TritonError(f"{path}, line {line}: {reason}") from error
    config.name = config.name or folder.name
    return config


def config_text(config: ModelConfig) -> str:
    """Return a configuration as the text of a config.pbtxt."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(config, as_utf8=True))


def reconfigure(
    config: ModelConfig, *, name: str | None = None, instances: int | None = None, slots: int | None = None
) -> ModelConfig:
    """Return a copy of a configuration with another name, number of instances, or slots in each. None keeps a value."""
    for setting, number in (("instances", instances), ("slots", slots)):
        if number is not None and number < 1:
            raise TritonError(f"{setting} must be 1 or more, not {number}")
    copy = _messages().ModelConfig()
    copy.CopyFrom(config)
    if name is not None:
        copy.name = name
    if instances is not None:
        if len(copy.instance_group) > 1:
            groups = len(copy.instance_group)
            raise TritonError(f"instances cannot be set: the model {config.name} has {groups} instance groups, not one")
        group = copy.instance_group[0] if copy.instance_group else copy.instance_group.add()
        group.count = instances
    if slots is not None:
        if not copy.HasField("sequence_batching"):
            raise TritonError(f"slots cannot be set: the model {config.name} has no sequence_batching")
        if not copy.sequence_batching.HasField("oldest"):
            raise TritonError(f"slots cannot be set: the sequence_batching of the model {config.name} has no `oldest`")
        copy.sequence_batching.oldest.max_candidate_sequences = slots
    return copy


def set_apart(config: ModelConfig, instances: int) -> ModelConfig:
    """Return a copy of a configuration in which each instance has its own group: MODEL_0, MODEL_1 and so on.

    If only the groups of a loaded model change, Triton keeps the instances whose group stays, with their sequences.
    Groups that differ only in their name are equal to Triton, and then Triton chooses which instance ends. So each
    group gets another priority. Triton uses priorities only if it limits the rate (`--rate-limit`).
    """
    copy = reconfigure(config, instances=1) if len(config.instance_group) < 2 else reconfigure(config)
    if copy.HasField("ensemble_scheduling"):
        raise TritonError(f"{config.name} is an ensemble: the number of its instances cannot follow the load")
    group = _messages().ModelInstanceGroup()
    group.CopyFrom(copy.instance_group[0])
    del copy.instance_group[:]
    for number in range(instances):
        group.name, group.rate_limiter.priority = group_name(config.name, number), number + 1
        copy.instance_group.add().CopyFrom(group)
    return copy


def group_name(model: str, number: int) -> str:
    """Return the name of a group of instances. Triton adds `_` and a number for each instance in it."""
    return f"{model}_{number}"


def computes_on_gpu(config: ModelConfig) -> bool:
    """Return whether Triton gives the instances of a model a GPU of this machine."""
    kind = instance_kind(config)
    return kind == "KIND_GPU" or (kind == "KIND_AUTO" and gpu_is_there())


def batched_for_device(config: ModelConfig) -> ModelConfig:
    """Return a configuration whose batches may be as large as its device computes as one.

    Only a model with slots has a batch for a GPU: all of its streams that have audio.
    """
    of_one_kind = len({group.kind for group in config.instance_group}) < 2
    if not (of_one_kind and config.sequence_batching.HasField("oldest") and computes_on_gpu(config)):
        return config
    copy = reconfigure(config)
    slots = int(config.sequence_batching.oldest.max_candidate_sequences)
    copy.max_batch_size = max(config.max_batch_size, min(slots, GPU_BATCH))
    return copy


def instance_kind(config: ModelConfig) -> str:
    """Return where the instances compute, in Triton's terms: KIND_AUTO (a GPU if available), KIND_CPU or KIND_GPU."""
    kinds = {group.kind for group in config.instance_group} or {0}
    if len(kinds) > 1:
        raise TritonError(f"the model {config.name} has instance groups of several kinds")
    return str(_messages().ModelInstanceGroup.Kind.Name(kinds.pop()))


@cache
def _messages() -> ModuleType:
    """Load the module of Triton's message types alone, because its package would import grpc and numpy."""
    if _MESSAGES in sys.modules:
        return sys.modules[_MESSAGES]
    message = f"a {CONFIG} cannot be read without the package tritonclient[grpc]: {install_command('embedded')}"
    package = importlib.util.find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise TritonError(message)
    path = Path(package.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", path)
    if spec is None or spec.loader is None:
        raise TritonError(message)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (ImportError, FileNotFoundError) as error:
        raise TritonError(message) from error
    return module
