"""Preparing speech checks the manifests and writes audio that reads back as it was."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from prepare_speech import Row, prepare, read_manifest, without
from training.corpus import Corpus, CorpusError

HEADER = "shard\tmember\tseconds\tcorpus\tspeaker\ttext\n"


def wav(seconds: float, seed: int) -> bytes:
    """A file of noise."""
    stream = io.BytesIO()
    noise = np.random.default_rng(seed).normal(0, 0.1, int(16000 * seconds))
    soundfile.write(stream, noise, 16000, format="WAV", subtype="PCM_16")
    return stream.getvalue()


def shard(path: Path, members: dict[str, bytes]) -> None:
    """A tar archive of these files."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Two utterances of train, one of dev, a noise and a room."""
    folder = tmp_path / "given"
    folder.mkdir()
    shard(folder / "t.tar", {"a.wav": wav(0.5, 1), "b.wav": wav(0.7, 2)})
    shard(folder / "d.tar", {"c.wav": wav(0.6, 3)})
    shard(folder / "noise.tar", {"n.wav": wav(0.2, 4)})
    shard(folder / "rooms.tar", {"r.wav": wav(0.1, 5)})
    (folder / "train.tsv").write_text(
        HEADER + "t.tar\ta.wav\t0.5\tx\ts1\tGOOD MORNING\nt.tar\tb.wav\t0.7\tx\ts1\tIT'S LATE\n"
    )
    (folder / "dev.tsv").write_text(HEADER + "d.tar\tc.wav\t0.6\tx\ts2\tGOOD EVENING\n")
    return folder


def test_prepared_audio_is_what_was_given(speech: Path, tmp_path: Path) -> None:
    """Every recording reads back with its samples, its words in lower case."""
    prepare(speech, tmp_path / "work", processes=1)
    train = Corpus(tmp_path / "work", "train")
    assert [utterance.text for utterance in train.utterances] == ["good morning", "it's late"]
    expected, _ = soundfile.read(io.BytesIO(wav(0.7, 2)), dtype="int16")
    assert np.array_equal(train.samples(train.utterances[1]), expected)
    assert len(Corpus(tmp_path / "work", "noise").utterances) == 1
    assert not list((tmp_path / "work").glob("*.partial"))


def test_a_recording_that_the_shard_lacks_is_an_error(speech: Path, tmp_path: Path) -> None:
    """A missing member is named, and nothing half-written stays behind."""
    shard(speech / "t.tar", {"a.wav": wav(0.5, 1)})
    with pytest.raises(CorpusError, match=r"lacks 1 recordings.*b\.wav"):
        prepare(speech, tmp_path / "work", processes=1)
    assert not (tmp_path / "work" / "train.samples").exists()
    assert not list((tmp_path / "work").glob("*.partial"))


def test_a_missing_shard_is_an_error_that_names_it(speech: Path, tmp_path: Path) -> None:
    """A manifest whose shard is not there fails."""
    (speech / "t.tar").unlink()
    with pytest.raises(CorpusError, match=r"t\.tar is missing"):
        prepare(speech, tmp_path / "work", processes=1)


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
    """Each kind of fault is told apart."""
    path = tmp_path / "train.tsv"
    path.write_text(content)
    with pytest.raises(CorpusError, match=complaint):
        read_manifest(path)


def test_what_dev_holds_is_left_out_of_train() -> None:
    """The same recording, and the same words of the same speaker, do not stay in train."""
    dev = [Row("d.tar", "1.opus", 1.0, "x", "anna", "HELLO")]
    same, again = Row("t.tar", "1.opus", 1.0, "x", "bert", "BYE"), Row("t.tar", "2.opus", 1.0, "x", "anna", "HELLO")
    other = Row("t.tar", "3.opus", 1.0, "x", "bert", "HELLO")
    assert without([same, again, other], dev) == [other]
