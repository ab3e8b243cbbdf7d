"""The graphs of a reader are written once, and appear complete or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamer.engine.reader.graph_files import MOST_KEPT, reader_graphs
from streamer.engine.reader.weights import UnknownReader
from tests.engine.reader.random_reader import random_weights, write_reader


@pytest.fixture
def published(tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    write_reader(folder, random_weights(), signed=True)
    return folder


def test_graphs_are_written_once(published: Path, tmp_path: Path) -> None:
    """The second start finds the files of the first, and leaves them as they are."""
    first = reader_graphs(published, tmp_path / "kept")
    assert isinstance(first.encoder, Path)
    assert isinstance(first.step, Path)
    before = first.encoder.stat().st_mtime_ns, first.step.stat().st_mtime_ns
    assert reader_graphs(published, tmp_path / "kept") == first
    assert (first.encoder.stat().st_mtime_ns, first.step.stat().st_mtime_ns) == before
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [first.encoder.parent.name]


def test_processes_that_start_together_keep_one_folder(published: Path, tmp_path: Path) -> None:
    """Whoever is slower uses the files of the other, and nothing half written stays."""
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: reader_graphs(published, tmp_path / "kept"), range(4)))
    assert len(found) == 1
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_other_weights_have_other_graphs(published: Path, tmp_path: Path) -> None:
    """A reader whose files change does not get the graphs of before."""
    first = reader_graphs(published, tmp_path / "kept")
    write_reader(published, random_weights(6), signed=True)
    assert reader_graphs(published, tmp_path / "kept") != first


def test_where_nothing_can_be_kept_the_graphs_are_in_memory(published: Path, tmp_path: Path) -> None:
    """A read-only disk stops no reader."""
    (tmp_path / "kept").write_bytes(b"a file where the folder should be")
    found = reader_graphs(published, tmp_path / "kept")
    assert isinstance(found.encoder, bytes)
    assert isinstance(found.step, bytes)


def test_the_folders_that_were_used_last_stay(published: Path, tmp_path: Path) -> None:
    """Graphs of former versions do not fill the disk."""
    kept = tmp_path / "kept"
    for number in range(MOST_KEPT + 2):
        (kept / f"reader-{number}").mkdir(parents=True)
        os.utime(kept / f"reader-{number}", (number, number))
    reader_graphs(published, kept)
    names = {path.name for path in kept.iterdir()}
    assert len(names) == MOST_KEPT
    assert f"reader-{MOST_KEPT + 1}" in names
    assert "reader-0" not in names


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A folder without the files of a reader says so."""
    with pytest.raises(UnknownReader, match="encoder_model"):
        reader_graphs(tmp_path, tmp_path / "kept")
