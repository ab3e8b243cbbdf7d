"""The models of a service: the public names that clients use, and the Triton models that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamer.base.limits import DEFAULT_MODEL
from streamer.base.names import check_name, model_name
from streamer.base.text import did_you_mean_one_of
from streamer.bridge.triton import MODEL
from streamer.bridge.triton.repository import CONFIG, asr_repository
from streamer.commands.settings.kinds import Kind, ListOf, display_text, display_toml, toml_string
from streamer.models.library import LIBRARY, SHIPPED, LibraryError, ModelLibrary, known_models
from streamer.models.model_folder import ModelFolderError, holds_graphs, read_any_folder
from streamer.models.readers import known_readers, whisper_models
from streamer.models.whisper_folder import holds_whisper, whisper_lacks


@dataclass(frozen=True)
class ServedModel:
    """A model of the repository, or a folder with one."""

    model: str  # its name in Triton
    name: str = ""  # its public name, if one was chosen
    folder: Path | None = None  # its folder, if it is not in the repository

    @property
    def source(self) -> str:
        """What a user types after the public name."""
        return self.model if self.folder is None else str(self.folder)


class _Model(Kind):
    """`NAME`, `FOLDER`, or either with a public name before it: `fast=NAME`."""

    def __init__(self) -> None:
        super().__init__(
            "the name or folder of a model, optionally with a public name as in fast=NAME", "[PUBLIC=]MODEL"
        )

    def of_text(self, text: str) -> ServedModel:
        """Read a model. Text with a slash, or that names an existing folder, is a folder."""
        return self._read(text, Path(), display_text(text))

    def of_toml(self, value: object, folder: Path) -> ServedModel:
        """Read a model from a string. A folder is relative to that of the settings file."""
        if type(value) is not str:
            raise self.error(display_toml(value))
        return self._read(value, folder, display_toml(value))

    def to_text(self, value: Any) -> str:
        """Write the model as a user would type it."""
        return f"{value.name}={value.source}" if value.name else str(value.source)

    def to_toml(self, value: Any) -> str:
        """Write the model with an absolute folder, which is the same from any other folder."""
        absolute = value if value.folder is None else replace(value, folder=value.folder.absolute())
        return toml_string(self.to_text(absolute))

    def _read(self, text: str, relative_to: Path, shown: str) -> ServedModel:
        public, equals, source = text.rpartition("=")
        path = relative_to / source
        try:
            name = check_name(public) if equals else ""
            if source and ("/" in source or path.is_dir()):
                return ServedModel(model_name(path), name, path)
            return ServedModel(check_name(source), name)
        except ValueError:
            raise self.error(shown) from None


class ModelList(ListOf):
    """Several models. In TOML, a single one needs no array."""

    def __init__(self) -> None:
        super().__init__(_Model())

    def of_toml(self, value: object, folder: Path) -> tuple[Any, ...]:
        """Read an array, or one string."""
        return super().of_toml([value] if type(value) is str else value, folder)


class ModelsError(ValueError):
    """The models cannot be served together. The message follows the name of the setting."""


def by_public_name(models: Sequence[ServedModel]) -> Mapping[str, ServedModel]:
    """Return the models by public name, including `default`. ModelsError if that is not possible.

    A model without a public name is called `default` if it is the first and no other model is called that. Otherwise it
    is called by its name in Triton.
    """
    has_default = any(model.name == DEFAULT_MODEL for model in models)
    by_name: dict[str, ServedModel] = {}
    for number, model in enumerate(models):
        name = model.name or (DEFAULT_MODEL if number == 0 and not has_default else model.model)
        if name in by_name:
            raise ModelsError(f"has two models with the public name {name}: give one another name, as in other=MODEL")
        if any(model.model == other.model for other in by_name.values()):
            raise ModelsError(f"has {model.model} twice: a Triton model can have only one public name")
        by_name[name] = model
    if DEFAULT_MODEL not in by_name:
        raise ModelsError(
            f"must have a model with the public name {DEFAULT_MODEL}, for sessions that do not name a model"
        )
    return by_name


def locate(
    models: Sequence[ServedModel], repository: Path, library: ModelLibrary, *, chosen: bool
) -> tuple[ServedModel, ...]:
    """Return the models. Those that are elsewhere on this machine, and not in the repository, get their folders.

    `chosen`: whether the user named them; otherwise the default of this machine is returned.

    ModelsError if a model is nowhere.
    """
    if not chosen:
        try:
            folder = library.default_folder()
        except LibraryError as error:
            raise ModelsError(f"must be given: {error}") from error
        return tuple(models) if folder is None else (ServedModel(folder.name, folder=folder),)
    single = {model: _locate(model, repository, library) for model in models if not _is_library(model, repository)}
    names = {model.model for model in single.values()}
    result: list[ServedModel] = []
    for model in models:
        if model in single:
            result.append(single[model])
        else:
            result += [each for each in _library_models(library) if each.model not in names]
    return tuple(result)


def _is_library(model: ServedModel, repository: Path) -> bool:
    """Return whether this word stands for all models of this machine. ModelsError if it has a public name."""
    if model.model != LIBRARY or model.folder is not None or (repository / LIBRARY).is_dir():
        return False
    if model.name:
        raise ModelsError(f"gives one name to all models of this machine: write {LIBRARY} without {model.name}=")
    return True


def _library_models(library: ModelLibrary) -> list[ServedModel]:
    """Return all models of this machine, with its default first."""
    try:
        default = library.default_folder()
    except LibraryError as error:
        raise ModelsError(f"has {LIBRARY}, but {error}") from error
    first = asr_repository() / MODEL if default is None else default
    return [ServedModel(path.name, folder=path) for path in dict.fromkeys((first, *library.models().values()))]


def _locate(model: ServedModel, repository: Path, library: ModelLibrary) -> ServedModel:
    if model.folder is not None or (repository / model.model).is_dir():
        return model
    folder = asr_repository() / MODEL if model.model == SHIPPED else library.find(model.model)
    folder = folder or whisper_models().get(model.model)
    if folder is None:
        raise ModelsError(f"names {model.model}, which is not in {repository}: {unknown_model(model.model, library)}")
    return ServedModel(folder.name, model.name, folder)


def unknown_model(name: str, library: ModelLibrary) -> str:
    """Say that this model is not on this machine, and how to get it."""
    catalogue = known_models()
    if name in catalogue and not catalogue[name].not_yet:
        return f"the model {name} is not on this machine yet: `streamer models get {name}` fetches it"
    if name in known_readers():
        return f"{name} is a reader: it reads ended segments beside a model, and cannot take the place of one"
    suggestion = did_you_mean_one_of(name, {**library.models(), **catalogue})
    hint = suggestion or "; `streamer models` lists those that can be fetched"
    return f"there is no model {name} on this machine{hint}"


def whisper_among(models: Sequence[ServedModel]) -> dict[str, Path]:
    """Return the folders of the Whisper models among these, by name in Triton. They read alone."""
    return {model.model: model.folder for model in models if model.folder is not None and holds_whisper(model.folder)}


def first_folder_error(models: Sequence[ServedModel]) -> str:
    """Describe the first folder that cannot be loaded; empty if all of them can."""
    for model in models:
        if model.folder is not None and (error := folder_error(model.folder)):
            return error
    return ""


def folder_error(folder: Path) -> str:
    """Return why this folder cannot be loaded as a model, as the rest of a sentence; empty if it can."""
    if (folder / CONFIG).is_file():
        return ""
    if holds_whisper(folder):
        lacks = whisper_lacks(folder)
        return f"names a Whisper model that cannot be used: {lacks}" if lacks else ""
    if not holds_graphs(folder):
        lacking = f"it has no {CONFIG}, and no public model (*.onnx, or model.bin of Whisper)"
        return f"names {folder}, which is not the folder of a model: {lacking}"
    try:
        read_any_folder(folder)
    except ModelFolderError as error:
        return f"names a public model that cannot be used: {error}"
    return ""
