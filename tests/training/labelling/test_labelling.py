"""Recordings without text become given speech."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamer.training.data.corpus import CorpusError
from streamer.training.data.given_speech import read_manifest
from streamer.training.labelling.labelling import Sources, label
from streamer.training.labelling.labels import Thresholds
from streamer.training.labelling.recordings import prepare_recordings
from streamer.triton.repository import asr_repository
from tests.project import SAMPLES
from tests.samples import reference
from tests.training.data.given_folder import HEADER


def test_the_known_sentence_that_was_read_is_found(tmp_path: Path) -> None:
    """The sentence that was read is found among others, and no recording gets a text of dev."""
    (tmp_path / "clips" / "deep").mkdir(parents=True)
    shutil.copy(SAMPLES / "airplane.mp3", tmp_path / "clips" / "deep")
    (tmp_path / "clips" / "notes.txt").write_text("no recording")
    assert len(prepare_recordings(tmp_path / "clips", tmp_path / "work", "clips", 1)) == 1

    text = reference("airplane.mp3")
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(f"It was a dark night.\n{text}\nAn aeroplane was almost here.\n")
    dev = tmp_path / "dev.tsv"
    sources = Sources(asr_repository() / "streaming_asr" / "1", [sentences], dev, beam=32)
    told: list[str] = []

    dev.write_text(HEADER + "d.tar\tc.wav\t0.6\tx\ts2\tGOOD EVENING\n")
    places = tmp_path / "clips", tmp_path / "work", "clips", tmp_path / "more", sources
    [row] = label(*places, Thresholds(), told.append)
    assert (row.corpus, row.member, row.text) == ("clips_found", "deep/airplane.mp3", text.upper())
    assert read_manifest(tmp_path / "more" / "train.tsv") == [row]
    assert told[0] == "3 known sentences"
    assert told[-2].startswith("found: 1 recording,")

    dev.write_text(HEADER + f"d.tar\tc.wav\t0.6\tx\ts2\t{text.upper()}\n")
    rows = label(*places, Thresholds(), told.append)
    assert text.upper() not in [row.text for row in rows]


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    """The error lists the kinds of files that are looked for."""
    with pytest.raises(CorpusError, match=r"no recordings.*\.flac"):
        prepare_recordings(tmp_path, tmp_path / "work", "clips", 1)
