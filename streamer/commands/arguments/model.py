"""The model that a command asks a service for, or that its own service gets.

It is the public name of a model of a service, the name of a public model on this machine, or a folder.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from streamer.address import is_ready
from streamer.chosen_service import EMBEDDED
from streamer.library import SHIPPED, LibraryError
from streamer.library.model_library import ModelLibrary
from streamer.limits import DEFAULT_MODEL
from streamer.settings.nearest import as_sentence
from streamer.settings.served_models import folder_error, unknown_model
from streamer.triton import MODEL, TritonError
from streamer.triton.repository import asr_repository, models_to_serve


@dataclass(frozen=True)
class ModelChoice:
    """A model of a service by its public name, or the folder of one that an embedded service loads."""

    name: str = ""
    folder: Path | None = None


def add_model_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--model` to a command that uses a service."""
    parser.add_argument(
        "--model",
        type=_read_choice,
        metavar="NAME|FOLDER",
        help="another model: one of this machine (`streamer models`) or the folder of a public model, for which a "
        "service of its own is started; or the public name of one that a service has (docs/how-to/models.md)",
    )


def model_choice(options: argparse.Namespace) -> ModelChoice:
    """Return the model that the user chose. A name means a model of this machine, unless --server names a service.

    TritonError if there is no such model, or if it cannot be used.
    """
    choice: ModelChoice = getattr(options, "model", None) or ModelChoice()
    alone = getattr(options, "engine", False)  # the bare engine uses no service
    server = None if alone else getattr(options, "server", None)
    if not choice.name or server not in (None, EMBEDDED):
        return choice
    if choice.name == SHIPPED:
        return ModelChoice() if alone else ModelChoice(folder=asr_repository() / MODEL)
    library = ModelLibrary()
    folder = library.find(choice.name)
    if folder is not None:
        try:
            library.read(choice.name)
        except LibraryError as error:
            raise TritonError(f"{error}; `streamer models get {choice.name}` fetches it again.") from None
        return ModelChoice(folder=folder)
    if alone or choice.name == DEFAULT_MODEL or (server is None and is_ready()):
        return choice
    if choice.name in models_to_serve(asr_repository()):
        return ModelChoice(folder=asr_repository() / choice.name)
    raise TritonError(as_sentence(unknown_model(choice.name, library)))


def model_folder(options: argparse.Namespace) -> Path | None:
    """Return the folder of the model that the user chose. None if it is the model of a service."""
    return model_choice(options).folder


def public_folder(text: str) -> Path:
    """Return the folder of a public model, from its path or, for a model of this machine, from its name."""
    path = Path(text)
    if "/" in text or path.is_dir():
        return path
    return ModelLibrary().find(text) or path


def _read_choice(text: str) -> ModelChoice:
    path = Path(text)
    if not text or ("/" not in text and not path.is_dir()):
        return ModelChoice(name=text)
    if reason := folder_error(path):
        raise argparse.ArgumentTypeError(reason)
    return ModelChoice(folder=path)
