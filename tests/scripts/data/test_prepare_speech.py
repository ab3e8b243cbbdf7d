"""Preparing speech checks the manifests and writes audio that reads back as it was."""

from __future__ import annotations

import io
import random
import tarfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import soundfile

from scripts.data.prepare_speech import Row, planned_speech, prepare, read_manifest, synthesise, without
from streamer.training.data.corpus import Corpus, CorpusError
from streamer.training.data.prompts import transcript

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


def test_synthetic_speech_lies_beside_train(speech: Path, tmp_path: Path) -> None:
    """As long as asked for, from each engine, in the form of the other sets, and the same again."""
    prepare(speech, tmp_path / "work", processes=1)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=1)
    made = Corpus(tmp_path / "work", "synthetic")
    before = made.everything().tobytes()
    assert 4 <= len(before) / 32000 < 16
    assert {utterance.corpus for utterance in made.utterances} == {"synthetic_espeak-ng", "synthetic_flite"}
    assert all(utterance.speaker and utterance.text.islower() for utterance in made.utterances)
    assert len({utterance.name for utterance in made.utterances}) == len(made.utterances)
    synthesise(tmp_path / "work", 4 / 3600, ["espeak-ng", "flite"], seed=1, processes=2)
    assert Corpus(tmp_path / "work", "synthetic").everything().tobytes() == before


def test_synthetic_speech_needs_what_was_prepared(tmp_path: Path) -> None:
    """Without train nobody knows which words are rare."""
    with pytest.raises(CorpusError, match="prepare_speech"):
        synthesise(tmp_path / "work", 1, ["flite"], seed=1, processes=1)


def test_no_text_of_dev_is_said() -> None:
    """What dev holds is passed over, nothing else is."""
    said, kept = (
        [transcript(text) for _, text in islice(planned_speech(["zebra"], unwanted, ["flite"], random.Random(3)), 400)]
        for unwanted in (set(), {"zebra", "stop"})
    )
    assert {"zebra", "stop"} <= set(said)
    assert {"zebra", "stop"}.isdisjoint(kept)
    assert "play the next song" in kept
