"""The bytes of tensors and of objects that refer to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from streamer.engine.memory.footprint import footprint, reachable

LARGE = 1 << 20


def test_tensors_count_once() -> None:
    """Views share their storage, wherever they are."""
    one = torch.ones(LARGE)
    own = footprint({"one": one, "views": [one[:10], (one.view(2, -1),)]}).own
    assert 0 <= own - 4 * LARGE < 10_000


def test_mapped_files_are_shared(tmp_path: Path) -> None:
    """A tensor of a mapped file is not memory of the process."""
    save_file({"part": torch.ones(LARGE)}, tmp_path / "file.safetensors")
    with safe_open(tmp_path / "file.safetensors", framework="pt") as file:
        found = footprint(file.get_tensor("part"))
    assert found.mapped >= 4 * LARGE
    assert found.own < 10_000


def test_arrays_count_once() -> None:
    """An array counts as large as it is, also if only a view of it is there, and views share it."""
    one = np.ones(LARGE, np.float32)
    for held in ({"one": one, "views": [one[:10], one.reshape(2, -1).swapaxes(0, 1)]}, [one[5:9]]):
        assert 0 <= footprint(held).own - 4 * LARGE < 10_000


def test_mapped_arrays_are_shared(tmp_path: Path) -> None:
    """An array in a mapped file is not memory of the process."""
    np.save(tmp_path / "file.npy", np.ones(LARGE, np.float32))
    found = footprint([np.load(tmp_path / "file.npy", mmap_mode="r")[3:]])
    assert found.mapped >= 4 * (LARGE - 3)
    assert found.own < 10_000


def test_code_and_recordings_are_left_out() -> None:
    """Objects of a function or a class, and audio, do not count as parts of an object."""
    large = torch.ones(LARGE)
    audio = bytearray(LARGE)
    found = list(reachable([lambda: large, torch.nn.Linear, audio, "word"]))
    assert "word" in found
    assert not any(part is large or part is audio for part in found)
