"""Manifests of given speech are checked, prepared sets hold it unchanged, and train has nothing of dev."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.workshop.data.given_folder import HEADER, make_given, shard, wav
from workshop.data import corpus
from workshop.data.corpus import (
    Corpus,
    CorpusError,
    Row,
    decode,
    decoded,
    prepare,
    read_manifest,
    without,
    write_given,
)
from workshop.processes import Workers


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "header"),
        (HEADER, "no utterance"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\n", "columns"),
        (HEADER + "t.tar\ta.wav\tlong\tx\ts1\tYES\n", "length in seconds"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tYES, 2\n", "capitals"),
        (HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tYES\n" * 2, "listed before"),
    ],
)
def test_a_broken_manifest_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    """Each kind of mistake has its own message."""
    path = tmp_path / "train.tsv"
    path.write_text(content)
    with pytest.raises(CorpusError, match=complaint):
        read_manifest(path)


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Provide the given speech."""
    return make_given(tmp_path / "given")


def test_prepared_audio_is_what_was_given(speech: Path, tmp_path: Path) -> None:
    """Every recording has its samples, and its words in lower case."""
    told: list[str] = []
    prepare(speech, tmp_path / "work", 1, told.append)
    assert told[0] == "train: 2 rows, 0 left out because dev holds them; dev: 1 row"
    train = Corpus(tmp_path / "work", "train")
    assert [utterance.text for utterance in train.utterances] == ["good morning", "it's late"]
    expected, _ = soundfile.read(io.BytesIO(wav(0.7, 2)), dtype="int16")
    assert np.array_equal(train.samples(train.utterances[1]), expected)
    assert len(Corpus(tmp_path / "work", "noise").utterances) == 1
    assert not list((tmp_path / "work").glob("*.partial"))


def test_a_recording_that_the_shard_lacks_is_an_error(speech: Path, tmp_path: Path) -> None:
    """A missing recording is named, and no incomplete file stays."""
    shard(speech / "t.tar", {"a.wav": wav(0.5, 1)})
    with pytest.raises(CorpusError, match=r"lacks 1 recording of .*b\.wav"):
        prepare(speech, tmp_path / "work", 1, print)
    assert not (tmp_path / "work" / "train.samples").exists()
    assert not list((tmp_path / "work").glob("*.partial"))


def test_a_missing_shard_is_an_error_that_names_it(speech: Path, tmp_path: Path) -> None:
    """A missing shard is an error that names it."""
    (speech / "t.tar").unlink()
    with pytest.raises(CorpusError, match=r"t\.tar is missing"):
        prepare(speech, tmp_path / "work", 1, print)


def test_what_dev_holds_is_left_out_of_train() -> None:
    """Recordings of dev, and texts of dev by the same speaker, are removed from train."""
    dev = [Row("d.tar", "1.opus", 1.0, "x", "anna", "HELLO")]
    same, again = Row("t.tar", "1.opus", 1.0, "x", "bert", "BYE"), Row("t.tar", "2.opus", 1.0, "x", "anna", "HELLO")
    other = Row("t.tar", "3.opus", 1.0, "x", "bert", "HELLO")
    assert without([same, again, other], dev) == [other]


def test_what_is_written_can_be_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shards have a limited size, and give the same recordings and texts."""
    recordings = [wav(0.5, seed) for seed in range(3)]
    monkeypatch.setattr(corpus, "SHARD_BYTES", len(recordings[0]) * 3 // 2)
    rows = [Row("", f"{number}.wav", 0.5, "clips_found", f"{number}", "GOOD MORNING") for number in range(3)]
    written = write_given(tmp_path / "more", "clips", zip(rows, recordings, strict=True))
    assert written == read_manifest(tmp_path / "more" / "train.tsv")
    assert [row.shard for row in written] == ["clips-000.tar", "clips-000.tar", "clips-001.tar"]
    with Workers(1) as workers:
        found = list(decoded(workers, tmp_path / "more", written))
    assert [utterance.text for utterance, _ in found] == ["good morning"] * 3
    for (_, samples), recording in zip(found, recordings, strict=True):
        assert (samples == decode(recording, "")).all()


def test_shards_of_an_earlier_run_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that writes less leaves nothing of one that wrote more, and no file of another name is touched."""
    monkeypatch.setattr(corpus, "SHARD_BYTES", 1)
    (tmp_path / "others-001.tar").write_bytes(b"")
    for count in (3, 1):
        rows = [Row("", f"{number}.wav", 0.5, "clips", f"{number}", "GOOD MORNING") for number in range(count)]
        write_given(tmp_path, "clips", [(row, wav(0.5, 1)) for row in rows])
        shards = sorted(path.name for path in tmp_path.glob("*.tar"))
        assert shards == [*(f"clips-{number:03d}.tar" for number in range(count)), "others-001.tar"]
