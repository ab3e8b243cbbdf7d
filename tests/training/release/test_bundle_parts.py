"""Parts of a bundle that have not changed are not written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.release.bundle_parts import take_over


def test_only_parts_that_are_others_are_written(tmp_path: Path) -> None:
    """Only changed parts are written, and other files stay."""
    source, bundle = tmp_path / "source", tmp_path / "bundle"
    for folder, weights in ((source, b"new"), (bundle, b"old")):
        folder.mkdir()
        (folder / "weights.pt").write_bytes(weights)
        (folder / "model.json").write_bytes(b"{}")
        (folder / "notes.txt").write_bytes(weights)
    before = (bundle / "model.json").stat().st_ino
    told: list[str] = []
    assert take_over(source, bundle, told.append) == ["weights.pt"]
    assert (bundle / "model.json").stat().st_ino == before
    assert (bundle / "weights.pt").read_bytes() == b"new"
    assert (bundle / "notes.txt").read_bytes() == b"old"
    assert told == ["model.json has not changed", "weights.pt is new: 0.0 MB"]


def test_a_folder_without_parts_is_refused(tmp_path: Path) -> None:
    """The error names the folder that was probably meant."""
    with pytest.raises(CorpusError, match="give the folder `averaged` of a run"):
        take_over(tmp_path, tmp_path, print)
