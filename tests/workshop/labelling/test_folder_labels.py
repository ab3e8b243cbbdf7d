"""A folder of recordings becomes given speech: its pieces, and the words on which the witnesses agree."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.project import BUNDLE, SAMPLES
from tests.workshop.labelling.scripted_witnesses import SAID, write_witness
from workshop.data.corpus import CorpusError, decoded, read_manifest
from workshop.labelling.agreement import Limits, Verdict
from workshop.labelling.cutting import Cutter, CuttingRule
from workshop.labelling.folder_labels import Judge, Recording, hear_all, recordings_in, summary, write_kept
from workshop.labelling.reading_journal import Journal
from workshop.labelling.witnesses import Witness, load_witness
from workshop.processes import StoppedError, Workers

RULE = CuttingRule()


def everything(word: str) -> bool:
    """A lexicon that has every word."""
    return bool(word)


@pytest.fixture(scope="module")
def witnesses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Witness]:
    """Two witnesses that differ in one of thirteen words."""
    folder = tmp_path_factory.mktemp("witnesses")
    texts = {"one": SAID, "two": SAID.replace("windy", "wintry")}
    return {name: load_witness(str(write_witness(folder / name, text)), everything) for name, text in texts.items()}


@pytest.fixture(scope="module")
def cutter() -> Cutter:
    return Cutter(BUNDLE, RULE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recording of four pieces in a folder, one without speech, and a file that is none."""
    (tmp_path / "speech" / "deep\tdown").mkdir(parents=True)
    shutil.copy(SAMPLES / "talk.flac", tmp_path / "speech" / "deep\tdown")
    soundfile.write(tmp_path / "speech" / "silence.wav", np.zeros(30_000, np.int16), 22_050)
    (tmp_path / "speech" / "broken.wav").write_bytes(b"RIFF, but no more")
    return tmp_path / "speech"


def journal_of(folder: Path) -> Journal:
    return Journal(folder, {"one": "a", "two": "b"}, RULE)


def test_what_is_kept_is_given_speech(
    folder: Path, tmp_path: Path, witnesses: dict[str, Witness], cutter: Cutter
) -> None:
    """Each piece is a recording of its own. The numbers say what became of everything."""
    recordings, told = recordings_in(folder), list[str]()
    with journal_of(tmp_path / "more") as journal:
        hear_all(recordings, cutter, witnesses, journal, told.append)
        judge = Judge(Limits(), everything)
        rows = write_kept(recordings, journal, judge, tmp_path / "more", "mine")
        numbers = summary(recordings, journal, judge)
        none = summary(recordings, journal, Judge(Limits(different=0.0), everything))
    assert "broken.wav" in told[0]
    assert told[-1].startswith("3 of 3 recordings; ")
    assert "one " in told[-1]
    assert "kept 4 of 4 pieces" in numbers
    assert numbers.endswith("of 3 recordings, 1 without speech and 1 that cannot be read")
    assert "kept 0 of 4 pieces" in none
    assert "4 the witnesses differ" in none
    assert read_manifest(tmp_path / "more" / "train.tsv") == rows
    assert {(row.corpus, row.speaker, row.text) for row in rows} == {("mine", "deep down/talk.flac", SAID.upper())}
    with Workers(1) as workers:
        read = [samples for _, samples in decoded(workers, tmp_path / "more", rows)]
    whole = soundfile.read(SAMPLES / "talk.flac", dtype="int16")[0]
    pieces = cutter.cut(whole)
    assert [each.tolist() for each in read] == [whole[one.start : one.end].tolist() for one in pieces]


def test_a_run_goes_on_where_it_was_stopped(
    folder: Path, tmp_path: Path, witnesses: dict[str, Witness], cutter: Cutter
) -> None:
    """No piece is heard twice, and what is complete is not even read."""
    recordings, told = recordings_in(folder), list[str]()
    answers = iter([False, False, True])
    with journal_of(tmp_path / "more") as journal, pytest.raises(StoppedError):
        hear_all(recordings, cutter, witnesses, journal, told.append, lambda: next(answers))
    half = (tmp_path / "more" / "journal.jsonl").read_bytes()
    with journal_of(tmp_path / "more") as journal:
        assert [len(journal.of(each.name).pieces) for each in recordings] == [0, 0, 2]
        hear_all(recordings, cutter, witnesses, journal, told.append)
        judge = Judge(Limits(), everything)
        pieces = [one.piece for each in recordings for one in journal.of(each.name).pieces]
        assert {judge.verdict(one) for each in recordings for one in journal.of(each.name).pieces} == {Verdict.KEPT}
    assert pieces == cutter.cut(soundfile.read(SAMPLES / "talk.flac", dtype="int16")[0])
    assert (tmp_path / "more" / "journal.jsonl").read_bytes().startswith(half)

    def refuse() -> np.ndarray[tuple[int], np.dtype[np.int16]]:
        raise AssertionError

    complete = [Recording(each.name, refuse) for each in recordings if each.name != "broken.wav"]
    with journal_of(tmp_path / "more") as journal:
        hear_all(complete, cutter, witnesses, journal, told.append)


def test_what_was_repaired_is_read_the_next_time(
    folder: Path, tmp_path: Path, witnesses: dict[str, Witness], cutter: Cutter
) -> None:
    """A recording that could not be read is tried again."""
    for number in (0, 4):
        with journal_of(tmp_path / "more") as journal:
            hear_all(recordings_in(folder), cutter, witnesses, journal, lambda line: None)
            assert len(journal.of("broken.wav").pieces) == number
            assert bool(journal.of("broken.wav").error) is (number == 0)
        shutil.copy(SAMPLES / "talk.flac", folder / "broken.wav")


def test_a_recording_that_has_changed_is_refused(
    folder: Path, tmp_path: Path, witnesses: dict[str, Witness], cutter: Cutter
) -> None:
    """Whether it was heard in part or as a whole: what was heard is not said in it."""
    (folder / "broken.wav").unlink()
    talk, recordings = folder / "deep\tdown" / "talk.flac", recordings_in(folder)
    answers = iter([False, True])
    with journal_of(tmp_path / "more") as journal, pytest.raises(StoppedError):
        hear_all(recordings, cutter, witnesses, journal, lambda line: None, lambda: next(answers))
    content = talk.read_bytes()
    samples, rate = soundfile.read(talk, dtype="int16")
    soundfile.write(talk, samples[rate:], rate)
    with journal_of(tmp_path / "more") as journal, pytest.raises(CorpusError, match="flac has changed"):
        hear_all(recordings, cutter, witnesses, journal, lambda line: None)
    talk.write_bytes(content)
    with journal_of(tmp_path / "more") as journal:
        hear_all(recordings, cutter, witnesses, journal, lambda line: None)
        soundfile.write(talk, samples[rate:], rate)
        with pytest.raises(CorpusError, match="flac has changed"):
            write_kept(recordings, journal, Judge(Limits(), everything), tmp_path / "more", "mine")
    assert not (tmp_path / "more" / "train.tsv").exists()


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    """Also what is no folder."""
    (tmp_path / "notes.txt").write_text("no recording")
    with pytest.raises(CorpusError, match="without recordings"):
        recordings_in(tmp_path)
    with pytest.raises(CorpusError, match="is no folder"):
        recordings_in(tmp_path / "notes.txt")
