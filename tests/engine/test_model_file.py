"""The files of the models of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from streamer.engine.array_memory import Arrays
from streamer.engine.memory.footprint import footprint
from streamer.engine.model_file import ModelFileError, ModelFileKind

KIND = ModelFileKind("model of a test", "test", 1, "none.py")


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    """Arrays of every kind have their numbers and shapes, and lie where the compiled loops can read them."""
    dice = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"u1": (3,), "i1": (5, 3), "i4": (7,), "i8": (2, 2), "f2": (9,), "f4": (3, 1)}
    arrays: Arrays = {kind: dice.integers(100, size=shape).astype(kind) for kind, shape in shapes.items()}
    arrays["empty"] = np.zeros((0, 4), np.float32)
    KIND.write(tmp_path / "file", arrays, {"more": 5})
    description, found = KIND.read(tmp_path / "file")
    assert description == {"format": 1, "more": 5}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
        assert found[name].flags.aligned
        assert found[name].flags.c_contiguous
        assert found[name].flags.writeable


def test_arrays_stay_in_the_file(tmp_path: Path) -> None:
    """Arrays take no memory of the process, and what is written into them does not get into the file."""
    KIND.write(tmp_path / "file", {"large": np.ones(1 << 20, np.float32)}, {})
    _, arrays = KIND.read(tmp_path / "file")
    size = footprint(arrays)
    assert size.mapped == 4 << 20
    assert size.own < 10_000
    arrays["large"][0] = 5
    assert KIND.read(tmp_path / "file")[1]["large"][0] == 1


def test_numbers_of_another_kind_are_refused(tmp_path: Path) -> None:
    """A kind of numbers that no model has is refused."""
    save_file({"a": np.zeros(2, np.uint16)}, tmp_path / "file", {"test": '{"format": 1}'})
    with pytest.raises(ModelFileError, match="a has numbers of the kind U16"):
        KIND.read(tmp_path / "file")
