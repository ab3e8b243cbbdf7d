"""The files of the models of words. A file has named arrays, and a description with the kind of the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from streamer.engine.array_memory import Arrays, mapped_arrays


class ModelFileError(Exception):
    """A file cannot be used as the model that it should hold. The message says why."""


@dataclass(frozen=True)
class ModelFileKind:
    """A kind of model file: its name, its format, and the script that makes such files."""

    kind: str  # such as "language model"
    key: str  # of the description among the metadata
    format: int | str
    maker: str  # the script that makes such a file

    def read(self, path: Path | str) -> tuple[dict[str, Any], Arrays]:
        """Return the description and the arrays. They are memory-mapped, so all processes share them."""
        if not Path(path).is_file():
            raise ModelFileError(f"{path} is missing: make it with scripts/train/{self.maker}")
        try:
            with safe_open(path, framework="numpy") as file:  # checks the whole header
                description = json.loads((file.metadata() or {}).get(self.key, "{}"))
            if description.get("format") != self.format:
                raise ModelFileError(f"{path} is not a {self.kind} of the format {self.format}")
            return description, mapped_arrays(path)
        except (OSError, SafetensorError, ValueError) as error:
            raise ModelFileError(f"{path} cannot be read as a {self.kind}: {error}") from error

    @contextmanager
    def parts(self, path: Path | str) -> Iterator[None]:
        """Raise ModelFileError with the path if a part of the model is missing or does not fit."""
        try:
            yield
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path} lacks a part of a {self.kind}: {error}") from error

    def write(self, path: Path | str, arrays: Mapping[str, NDArray[Any]], description: Mapping[str, object]) -> None:
        """Write a model, replacing the file as a whole."""
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        text = json.dumps({"format": self.format, **description})
        try:
            save_file({name: np.ascontiguousarray(part) for name, part in arrays.items()}, partial, {self.key: text})
            partial.chmod(0o644)  # it was created for its owner only, but a server may run as another user
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
