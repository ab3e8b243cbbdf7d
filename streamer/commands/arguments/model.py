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
class AskedModel:
    """A model of a service by its public name, or the folder of one that an embedded service loads."""

    name: str = ""
    folder: Path | None = None


def add_model_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--model` to a command that uses a service."""
    parser.add_argument(
        "--model",
        type=_asked,
        metavar="NAME|FOLDER",
        help="another model: one of this machine (`streamer models`) or the folder of a public model, for which a "
        "service of its own is started; or the public name of one that a service has (docs/how-to/models.md)",
    )


def asked_model(options: argparse.Namespace) -> AskedModel:
    """Return the model that was asked for. A name means a model of this machine, unless the service was named.

    TritonError if there is no such model, or if it cannot be used.
    """
    asked: AskedModel = getattr(options, "model", None) or AskedModel()
    alone = getattr(options, "engine", False)  # the bare engine: no service is used
    server = None if alone else getattr(options, "server", None)
    if not asked.name or server not in (None, EMBEDDED):
        return asked
    if asked.name == SHIPPED:
        return AskedModel() if alone else AskedModel(folder=asr_repository() / MODEL)
    library = ModelLibrary()
    folder = library.find(asked.name)
    if folder is not None:
        try:
            library.read(asked.name)
        except LibraryError as error:
            raise TritonError(f"{error}; `streamer models get {asked.name}` fetches it again.") from None
        return AskedModel(folder=folder)
    if alone or asked.name == DEFAULT_MODEL or (server is None and is_ready()):
        return asked
    if asked.name in models_to_serve(asr_repository()):
        return AskedModel(folder=asr_repository() / asked.name)
    raise TritonError(as_sentence(unknown_model(asked.name, library)))


def model_folder(options: argparse.Namespace) -> Path | None:
    """Return the folder of the model that was asked for. None if it is the model of a service."""
    return asked_model(options).folder


def public_folder(text: str) -> Path:
    """Return the folder of a public model, which may be named if it is one of this machine."""
    path = Path(text)
    if "/" in text or path.is_dir():
        return path
    return ModelLibrary().find(text) or path


def _asked(text: str) -> AskedModel:
    path = Path(text)
    if not text or ("/" not in text and not path.is_dir()):
        return AskedModel(name=text)
    if wrong := folder_error(path):
        raise argparse.ArgumentTypeError(wrong)
    return AskedModel(folder=path)
