"""The model that a command asks a service for, or that its own service gets: a public name, or a folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from streamer.settings.served_models import wrong_folder


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
        help="another model: the public name of one that the service has, or the folder of a public model, for which "
        "a service of its own is started (docs/how-to/models.md)",
    )


def model_folder(options: argparse.Namespace) -> Path | None:
    """The folder of the model that was asked for. None if it is the model of a service."""
    asked: AskedModel | None = getattr(options, "model", None)
    return asked.folder if asked else None


def _asked(text: str) -> AskedModel:
    path = Path(text)
    if not text or ("/" not in text and not path.is_dir()):
        return AskedModel(name=text)
    if wrong := wrong_folder(path):
        raise argparse.ArgumentTypeError(wrong)
    return AskedModel(folder=path)
