"""Labelled speech is written in the form of given speech."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.training.data.given_speech import Row, decode, decoded, read_manifest
from streamer.training.labelling import labelled_folder
from streamer.training.labelling.labelled_folder import write_labelled
from streamer.training.workers import Workers
from tests.training.data.given_folder import wav


def test_what_is_written_can_be_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shards have a limited size, and give the same recordings and texts."""
    recordings = [wav(0.5, seed) for seed in range(3)]
    monkeypatch.setattr(labelled_folder, "SHARD_BYTES", len(recordings[0]) * 3 // 2)
    rows = [Row("", f"{number}.wav", 0.5, "clips_found", f"{number}", "GOOD MORNING") for number in range(3)]
    written = write_labelled(tmp_path / "more", "clips", zip(rows, recordings, strict=True))
    assert written == read_manifest(tmp_path / "more" / "train.tsv")
    assert [row.shard for row in written] == ["clips-000.tar", "clips-000.tar", "clips-001.tar"]
    with Workers(1) as workers:
        found = list(decoded(workers, tmp_path / "more", written))
    assert [utterance.text for utterance, _ in found] == ["good morning"] * 3
    for (_, samples), recording in zip(found, recordings, strict=True):
        assert (samples == decode(recording, "")).all()
