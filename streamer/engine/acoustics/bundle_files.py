"""The files of the acoustic model in the folder of a bundle.

`model.json` describes the model (name, sample rate, steps, units by head, encoder), and `weights.safetensors` has its
weights in half precision. `activity.safetensors` has the activity network, which distinguishes speech from other
sounds and is trained separately; a bundle may lack it. A file of weights also has their checksum.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from streamer.base.json_types import JsonObject
from streamer.engine.acoustics.encoder_config import AnyEncoder, encoder_from_json
from streamer.engine.acoustics.features import SAMPLE_RATE
from streamer.engine.array_memory import mapped_arrays

MODEL_FILE: Final = "model.json"
WEIGHTS_FILE: Final = "weights.safetensors"
ACTIVITY_FILE: Final = "activity.safetensors"
CHECKSUM: Final = "sha256"
"""The name of the checksum among the metadata of a file of weights."""

Weights = Mapping[str, NDArray[Any]]
"""The weights of a network, by the names that they have in torch."""


class BundleError(Exception):
    """A bundle cannot be used. The message says what is wrong with which file."""


@dataclass(frozen=True)
class ModelDescription:
    """The content of `model.json`."""

    name: str
    encoder: AnyEncoder
    units: dict[str, list[str]]
    step_ms: tuple[int, ...]

    def __post_init__(self) -> None:
        for output in self.encoder.outputs:
            if len(self.units.get(output.name, ())) != output.units:
                raise ValueError(f"the names listed for head {output.name} do not match its {output.units} units")
        try:
            frames = [self.frames_of(step_ms) for step_ms in self.step_ms]
        except ValueError as error:
            raise ValueError(f"step_ms {list(self.step_ms)} does not fit: {error}") from error
        if not frames:
            raise ValueError("step_ms has no step")

    def frames_of(self, step_ms: int) -> int:
        """Return the number of frames of a step. ValueError if a step cannot have this length."""
        return self.encoder.frames_of(step_ms * SAMPLE_RATE // 1000)

    def to_json(self) -> JsonObject:
        """Return the description as JSON values."""
        return {
            "name": self.name,
            "sample_rate": SAMPLE_RATE,
            "step_ms": list(self.step_ms),
            "units": self.units,
            "encoder": self.encoder.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelDescription:
        """Read the description from JSON values."""
        if values["sample_rate"] != SAMPLE_RATE:
            raise ValueError(f"sample_rate must be {SAMPLE_RATE}, as the features need it, not {values['sample_rate']}")
        encoder = encoder_from_json(values["encoder"])
        return cls(values["name"], encoder, values["units"], tuple(values["step_ms"]))


def read_description(folder: Path) -> ModelDescription:
    """Read `model.json` of a bundle that also has weights. BundleError says what is wrong."""
    path = folder / MODEL_FILE
    for needed in (path, folder / WEIGHTS_FILE):
        if not needed.is_file():
            raise BundleError(f"{needed} is missing: the folder does not contain a trained model")
    try:
        return ModelDescription.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{path} does not describe a model: {error}") from error


def write_description(description: ModelDescription, folder: Path) -> None:
    """Write `model.json` of a bundle. A file with the same content stays as it is."""
    partial = folder / (MODEL_FILE + ".partial")
    partial.write_text(json.dumps(description.to_json(), indent=1) + "\n", encoding="utf-8")
    _put(partial, folder / MODEL_FILE)


class FileWeights(dict[str, NDArray[Any]]):
    """The weights in a file, memory-mapped, with their checksum."""

    checksum = ""


def read_weights(path: Path) -> FileWeights:
    """Return the weights in a file, in the precision of the file. BundleError if it is damaged."""
    try:
        with safe_open(path, framework="numpy") as file:  # checks the whole header
            stored = (file.metadata() or {}).get(CHECKSUM)
        weights = FileWeights(mapped_arrays(path))
    except (OSError, SafetensorError, ValueError) as error:
        raise BundleError(f"{path} cannot be read: {error}") from error
    weights.checksum = checksum(weights)
    if stored != weights.checksum:
        raise BundleError(f"{path} is damaged: its checksum is that of other weights")
    return weights


def write_weights(weights: Weights, path: Path) -> None:
    """Write weights with their checksum, replacing the file as a whole. A file with the same content stays."""
    partial = path.with_name(path.name + ".partial")
    try:
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, partial, _metadata(weights))
        partial.chmod(0o644)  # it was created for its owner only, but a server may run as another user
        _put(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def checksum(weights: Weights) -> str:
    """Return the checksum of weights: of their names, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        digest.update(f"{name} {list(weights[name].shape)}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _metadata(weights: Weights) -> dict[str, str]:
    return {CHECKSUM: checksum(weights)}  # a single entry, because several would have no fixed order in the file


class PartOfWeights(Mapping[str, NDArray[np.float32]]):
    """The weights of a part of a network, by their names in this part. Each becomes 32 bits when it is asked for."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._begin = f"{prefix}." if prefix else ""
        self._weights = weights
        if isinstance(weights, PartOfWeights):
            self._begin, self._weights = weights._begin + self._begin, weights._weights

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self._weights[self._begin + name].astype(np.float32, copy=False)

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._begin) for name in self._weights if name.startswith(self._begin))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def checksum(self) -> str:
        """What no other weights have: the checksum of their file and their place in it, or a checksum of their own."""
        if isinstance(self._weights, FileWeights):
            return f"{self._begin}{self._weights.checksum}"
        return checksum(self)

    @property
    def size(self) -> int:
        """The bytes of these weights as they are stored."""
        return sum(self._weights[self._begin + name].nbytes for name in self)


def within(weights: Weights, prefix: str) -> PartOfWeights:
    """Return the weights of a part of a network in 32 bits."""
    return PartOfWeights(weights, prefix)


def _put(partial: Path, target: Path) -> None:
    """Replace `target` with `partial`, unless both have the same content. Then `target` stays."""
    if target.is_file() and filecmp.cmp(partial, target, shallow=False):
        partial.unlink()
    else:
        partial.replace(target)
