"""Triton's model repository: finds it, lists its models, and copies it with other settings."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamer.graphs.model_folder import holds_graphs
from streamer.shipped import shipped
from streamer.triton import MODEL, TritonError
from streamer.triton.model_config import CONFIG, config_text, model_config, reconfigure, set_apart

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig  # type: ignore[import-untyped]

VERSION = "1"
COMPILED = "__pycache__"
BUNDLE = "bundle"  # the parameter that names the folder with the weights
_ADAPTER = "from streamer.adapters.public_model import TritonPythonModel as TritonPythonModel\n"


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
    """Return the names of the models of a repository that a service can serve: all except steps of ensembles."""
    steps = steps_in(repository)
    return tuple(name for name in models_in(repository) if name not in steps)


def models_alone(repository: Path) -> tuple[str, ...]:
    """Return the names of the models of a repository that are neither ensembles nor steps of ensembles.

    The image of Triton loads these (`deploy/images/models-entry`).
    """
    return tuple(
        name
        for name in models_to_serve(repository)
        if not model_config(repository / name).HasField("ensemble_scheduling")
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
    model: Path, copy: Path, *, instances: int | None = None, slots: int | None = None, is_step: bool = False
) -> None:
    """Make `copy` a model of links with these numbers and the name of its folder. It replaces an older copy.

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
    new = reconfigure(config, name=name, instances=instances, slots=slots)
    _clear(copy)
    if new == config:
        copy.symlink_to(model)
        return
    copy.mkdir()
    for path in model.iterdir():
        if path.name != CONFIG:
            (copy / path.name).symlink_to(path)
    (copy / CONFIG).write_text(config_text(new), encoding="utf-8")


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
