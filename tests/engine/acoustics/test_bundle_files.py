"""The files of the acoustic model: weights are read as they were written, and damage is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import load_file

from streamer.engine.acoustics.bundle_files import (
    ACTIVITY_FILE,
    CHECKSUM,
    WEIGHTS_FILE,
    BundleError,
    checksum,
    read_description,
    read_weights,
    within,
    write_weights,
)
from streamer.engine.networks.acoustic_network import AcousticNetwork, read_activity, weights_of
from tests.project import BUNDLE

WEIGHTS = {"b.weight": np.arange(6, dtype=np.float16).reshape(2, 3), "b.bias": np.ones(2, np.float16)}


@pytest.mark.parametrize("name", [WEIGHTS_FILE, ACTIVITY_FILE])
def test_torch_reads_the_same_weights(name: str) -> None:
    """The checksum in a shipped file is that of the tensors that torch reads in it."""
    tensors = {name: tensor.numpy() for name, tensor in load_file(BUNDLE / name).items()}
    with safe_open(BUNDLE / name, framework="numpy") as file:
        assert file.metadata() == {CHECKSUM: checksum(tensors)}


def test_the_shipped_weights_are_those_of_the_networks() -> None:
    """Written again from the networks in torch, the shipped files would have the same weights."""
    network, activity = AcousticNetwork.load(BUNDLE), read_activity(BUNDLE)
    assert activity is not None
    halves = {name: array.astype(np.float16) for name, array in weights_of(network).items()}
    assert checksum(halves) == checksum(read_weights(BUNDLE / WEIGHTS_FILE))
    assert checksum(weights_of(activity)) == checksum(read_weights(BUNDLE / ACTIVITY_FILE))


def test_weights_are_read_as_written(tmp_path: Path) -> None:
    """Values, shapes and precision stay, everybody may read the file, and a part has shorter names."""
    path = tmp_path / "weights.safetensors"
    write_weights(WEIGHTS, path)
    found = read_weights(path)
    assert checksum(found) == checksum(WEIGHTS)
    assert path.stat().st_mode & 0o777 == 0o644
    part = within(found, "b")
    assert part.keys() == {"weight", "bias"}
    assert part["weight"].dtype == np.float32
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_an_equal_file_stays(tmp_path: Path) -> None:
    """Writing the same weights again leaves the file alone."""
    path = tmp_path / "weights.safetensors"
    write_weights(WEIGHTS, path)
    before = path.stat().st_ino
    write_weights(dict(reversed(WEIGHTS.items())), path)
    assert path.stat().st_ino == before
    write_weights({"b.bias": np.zeros(2, np.float16)}, path)
    assert path.stat().st_ino != before


def test_damage_is_found(tmp_path: Path) -> None:
    """A changed byte, a truncated file and other content are errors that name the file."""
    path = tmp_path / "weights.safetensors"
    write_weights(WEIGHTS, path)
    content = path.read_bytes()
    for damaged in (content[:-1] + b"x", content[:-8], b"no weights", b""):
        path.write_bytes(damaged)
        with pytest.raises(BundleError, match=r"weights\.safetensors"):
            read_weights(path)


def test_a_checksum_depends_on_everything() -> None:
    """Names, shapes and values change the checksum; the order of the weights does not."""
    one = np.arange(4, dtype=np.float32)
    kinds: list[dict[str, NDArray[Any]]] = [{"a": one}, {"b": one}, {"a": one.reshape(2, 2)}, {"a": one + 1}, {}]
    assert len({checksum(kind) for kind in kinds}) == len(kinds)
    assert checksum({"a": one, "b": one}) == checksum({"b": one, "a": one})


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    """A missing description and a wrong one are errors that name the file."""
    with pytest.raises(BundleError, match=r"model\.json is missing"):
        read_description(tmp_path)
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(BundleError, match=r"weights\.safetensors is missing"):
        read_description(tmp_path)
    (tmp_path / WEIGHTS_FILE).write_bytes(b"")
    with pytest.raises(BundleError, match=r"model\.json does not describe a model"):
        read_description(tmp_path)
