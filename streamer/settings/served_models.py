"""The models of a service: the public names that clients ask for, and the Triton models that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamer.limits import DEFAULT_MODEL
from streamer.settings.kinds import Kind, ListOf, shown_text, shown_toml, toml_string
from streamer.triton import check_name
from streamer.triton.model_config import CONFIG


@dataclass(frozen=True)
class ServedModel:
    """One of them: a model of the repository, or a folder with one."""

    model: str  # its name in Triton
    name: str = ""  # the public one, if somebody chose it
    folder: Path | None = None  # if it does not lie in the repository

    @property
    def source(self) -> str:
        """What stands behind the public name when one types it."""
        return self.model if self.folder is None else str(self.folder)


class _Model(Kind):
    """`NAME`, `FOLDER`, or either with a public name before it: `fast=NAME`."""

    def __init__(self) -> None:
        super().__init__("the name or folder of a model, perhaps with a public name as in fast=NAME", "[PUBLIC=]MODEL")

    def of_text(self, text: str) -> ServedModel:
        """A model; what has a slash or is a folder is one."""
        return self._read(text, Path(), shown_text(text))

    def of_toml(self, value: object, folder: Path) -> ServedModel:
        """The same in a string; a folder is relative to that of the file."""
        if type(value) is not str:
            raise self.wrong(shown_toml(value))
        return self._read(value, folder, shown_toml(value))

    def to_text(self, value: Any) -> str:
        """As one would type it."""
        return f"{value.name}={value.source}" if value.name else str(value.source)

    def to_toml(self, value: Any) -> str:
        """A folder is absolute: it is the same wherever this is written to."""
        absolute = value if value.folder is None else replace(value, folder=value.folder.absolute())
        return toml_string(self.to_text(absolute))

    def _read(self, text: str, relative_to: Path, shown: str) -> ServedModel:
        public, equals, source = text.rpartition("=")
        path = relative_to / source
        try:
            name = check_name(public) if equals else ""
            if source and ("/" in source or path.is_dir()):
                return ServedModel(check_name(path.resolve().name), name, path)
            return ServedModel(check_name(source), name)
        except ValueError:
            raise self.wrong(shown) from None


class ModelList(ListOf):
    """Several models; in TOML a single one needs no array."""

    def __init__(self) -> None:
        super().__init__(_Model())

    def of_toml(self, value: object, folder: Path) -> tuple[Any, ...]:
        """An array, or one string."""
        return super().of_toml([value] if type(value) is str else value, folder)


class ModelsError(ValueError):
    """The models do not go together; the message follows the name of the setting."""


def by_public_name(models: Sequence[ServedModel]) -> Mapping[str, ServedModel]:
    """Each model under its public name, with `default` among them; ModelsError if that cannot be.

    Without a public name of its own the first model is the default, and the others are called as in Triton.
    """
    chosen = any(model.name == DEFAULT_MODEL for model in models)
    found: dict[str, ServedModel] = {}
    for number, model in enumerate(models):
        name = model.name or (DEFAULT_MODEL if number == 0 and not chosen else model.model)
        if name in found:
            raise ModelsError(f"has two models of the public name {name}: give one of them another, as in other=MODEL")
        if any(model.model == other.model for other in found.values()):
            raise ModelsError(f"has {model.model} twice: a Triton model has one public name")
        found[name] = model
    if DEFAULT_MODEL not in found:
        raise ModelsError(f"needs a model of the public name {DEFAULT_MODEL}: sessions that name none get that")
    return found


def missing_folder(models: Sequence[ServedModel]) -> str:
    """A sentence about a folder that holds no model; empty if there is none such."""
    for model in models:
        if model.folder is not None and not (model.folder / CONFIG).is_file():
            return f"names {model.folder}, which is not the folder of a Triton model: it has no {CONFIG}"
    return ""
