"""Arrays outside the heap."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from streamer.engine.array_memory import array_with_room, mapped_arrays, parts_of
from streamer.engine.memory.footprint import footprint, resident

ROOM = 1 << 26


def test_room_takes_no_memory_before_it_is_written() -> None:
    """An array of a gigabyte costs only the pages that have numbers, also where memory was freed before."""
    freed = [np.ones(1 << 20) for _ in range(16)]
    del freed
    before = resident()["RssAnon"]
    array = array_with_room(np.dtype(np.int64), (ROOM, 2))
    assert array.shape == (ROOM, 2)
    array[5] = 7
    array[-1] = 8
    assert array[[0, 5, -1]].tolist() == [[0, 0], [7, 7], [8, 8]]
    assert resident()["RssAnon"] - before < 1 << 20


def test_an_array_begins_with_a_part_of_a_file(tmp_path: Path) -> None:
    """Its first rows are those of the file, wherever they lie in it, and writing does not change the file."""
    dice, path = random.Random(0), tmp_path / "file.safetensors"
    for _ in range(20):
        arrays = {
            f"array {number}": np.random.default_rng(number).integers(99, size=(dice.randint(0, 3000), 3)).astype(kind)
            for number, kind in enumerate((np.int32, np.uint8, np.float64, np.float16))
        }
        save_file(arrays, path)
        for name, part in parts_of(path).items():
            rows = len(arrays[name])
            longer = array_with_room(part.kind, (rows + 5000, 3), part)
            assert np.array_equal(longer[:rows], arrays[name])
            assert longer.flags.aligned
            assert longer.flags.c_contiguous
            longer[:] = 1
            assert np.array_equal(mapped_arrays(path)[name], arrays[name])


def test_a_part_of_a_file_is_shared(tmp_path: Path) -> None:
    """What comes from the file is not memory of the process."""
    save_file({"part": np.ones(1 << 20, np.float32)}, tmp_path / "file.safetensors")
    [part] = parts_of(tmp_path / "file.safetensors").values()
    longer = array_with_room(part.kind, (3 << 20,), part)
    found = footprint([longer[5:]])
    assert abs(found.mapped - (4 << 20)) < 10_000
    assert abs(found.own - (8 << 20)) < 10_000


def test_an_array_outlives_its_file(tmp_path: Path) -> None:
    """The memory is kept as long as a view of it is there, also if the file is gone."""
    save_file({"part": np.arange(1 << 16)}, tmp_path / "file")
    [part] = parts_of(tmp_path / "file").values()
    view = array_with_room(part.kind, (1 << 17,), part)[100:200]
    (tmp_path / "file").unlink()
    assert view.tolist() == list(range(100, 200))
