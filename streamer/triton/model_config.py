"""Reads and writes a model's `config.pbtxt` with protobuf, and changes its name, its instances and their slots.

The import of protobuf and of Triton's message types takes 20 ms, so it waits until a file is read.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from streamer.distribution import install_command
from streamer.triton import TritonError

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig  # type: ignore[import-untyped]

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
