"""Recordings of people who dictate: letters and digits as words, and nobody is both trained on and evaluated."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.workshop.labelling.dictated_folder import HEADER, make_collection
from workshop.data.corpus import CorpusError, read_manifest
from workshop.labelling.dictated_recordings import (
    divided,
    read_dictations,
    without_mistakes,
    write_manifest,
    write_training,
)


def test_names_are_spelled_and_numbers_said_by_digits(tmp_path: Path) -> None:
    """Every second person is evaluated. Addresses, and recordings that are not there, are left out."""
    evaluated, _ = divided(read_dictations(make_collection(tmp_path)))
    assert write_manifest(tmp_path, evaluated).read_text(encoding="utf-8").splitlines() == [
        "file\tcorpus\tspeaker\ttext",
        "audio/Names/r1.wav\tspelled names\tr1\tz o e o n e i l l",
        "audio/Numbers/r1.wav\ttelephone numbers\tr1\tnine one nine six eight five six zero one nine",
        "audio/Names/r3.wav\tspelled names\tr3\tb o",
    ]


def test_the_others_are_given_speech(tmp_path: Path) -> None:
    """The other recordings can be prepared like all speech for training."""
    _, trained_on = divided(read_dictations(make_collection(tmp_path)))
    write_training(tmp_path, trained_on, tmp_path / "more")
    rows = read_manifest(tmp_path / "more" / "train.tsv")
    assert [(row.member, row.speaker, row.seconds) for row in rows] == [
        ("Names-r2.wav", "r2", 1.0),
        ("Numbers-r2.wav", "r2", 5.0),
    ]
    assert rows[0].text == "A L"


def test_what_the_table_cannot_be_right_about_is_left_out(tmp_path: Path) -> None:
    """A name said as a word is too short to be spelled, and one recording is not of a name and of a number."""
    found = read_dictations(make_collection(tmp_path))
    soundfile.write(tmp_path / "audio/Names/r3.wav", np.ones(4000, np.int16), 8000)
    shutil.copy(tmp_path / "audio/Names/r2.wav", tmp_path / "audio/Numbers/r2.wav")
    assert [one.file for one in without_mistakes(tmp_path, found)] == ["audio/Names/r1.wav", "audio/Numbers/r1.wav"]


def test_another_folder_is_refused(tmp_path: Path) -> None:
    """The message says what the folder lacks."""
    with pytest.raises(CorpusError, match=r"metadata\.csv is missing"):
        read_dictations(tmp_path)
    for table, says in (("a,b\n1,2\n", "another table"), (HEADER, "names no recording")):
        (tmp_path / "metadata.csv").write_text(table, encoding="utf-8")
        with pytest.raises(CorpusError, match=says):
            read_dictations(tmp_path)
