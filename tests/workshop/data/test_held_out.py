"""The held-out set: what our tables say, how it is made from repositories, and what makes that fail."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from streamer.audio.audio_file import read_audio
from streamer.commands.accuracy.manifest import read_manifest
from tests.project import SAMPLES
from tests.workshop.data.held_out_tables import CUTS, FILES_HEADER, Published, git, publish
from workshop.data.corpus import CorpusError
from workshop.data.held_out import LABELS, Tables, leaks, make


@pytest.fixture
def published(tmp_path: Path) -> Published:
    """Provide a repository with two recordings, and tables about them."""
    return publish(tmp_path)


def made(published: Published, folder: Path) -> Path:
    """Make the set and return its manifest."""
    make(Tables.read(published.tables), folder / "clones", folder / "set", f"file://{published.origin}")
    return folder / "set" / "heldout.tsv"


def test_the_set_has_the_parts_that_the_table_names(published: Published, tmp_path: Path) -> None:
    """A recording is that part of its file at 16 kHz, and the manifest is one that `streamer evaluate` reads."""
    first, second, plane = read_manifest(made(published, tmp_path))
    talk = read_audio(SAMPLES / "talk.flac")
    assert np.array_equal(first.samples(), talk[8000:36000])
    assert np.array_equal(second.samples(), talk[48000:64000])
    assert np.array_equal(plane.samples(), read_audio(SAMPLES / "airplane.mp3")[:16000])
    assert (first.corpus, first.speaker, first.words) == ("talks", "anna", ("good", "morning"))
    assert plane.corpus == "prompts"


def test_the_same_tables_give_the_same_files(published: Published, tmp_path: Path) -> None:
    """Nothing depends on when or where the set is made, and a second time needs no repository."""
    names = ("heldout.tsv", "heldout-000.tar")
    first = [(made(published, tmp_path).parent / name).read_bytes() for name in names]
    shutil.rmtree(tmp_path / "set")
    shutil.rmtree(published.origin)
    assert [(made(published, tmp_path).parent / name).read_bytes() for name in names] == first


def test_only_the_files_of_the_table_are_fetched(published: Published, tmp_path: Path) -> None:
    """Other files of the commit stay where they are."""
    (published.repository / "other.bin").write_bytes(bytes(100_000))
    git(published.repository, "add", ".")
    git(published.repository, "commit", "--quiet", "--message", "add another file")
    commit = git(published.repository, "rev-parse", "HEAD")
    published = Published(published.origin, published.tables, commit)
    published.list_files()
    made(published, tmp_path)
    lacking = git(tmp_path / "clones" / "anna+talks", "rev-list", "--objects", "--missing=print", commit)
    assert git(published.repository, "rev-parse", "HEAD:other.bin") in lacking
    assert f"?{git(published.repository, 'rev-parse', 'HEAD:sounds/talk.flac')}" not in lacking


def test_a_clone_that_is_there_is_read(published: Published, tmp_path: Path) -> None:
    """A folder of clones needs no address."""
    (tmp_path / "clones").mkdir()
    published.repository.rename(tmp_path / "clones" / "anna+talks")
    make(Tables.read(published.tables), tmp_path / "clones", tmp_path / "set", "https://nowhere.invalid")
    assert len(read_manifest(tmp_path / "set" / "heldout.tsv")) == 3


def test_a_channel_is_heard_alone(published: Published, tmp_path: Path) -> None:
    """In a file with two channels, a recording has one of them."""
    talk = read_audio(SAMPLES / "talk.flac")[:32000]
    soundfile.write(
        published.repository / "sounds" / "talk.flac", np.stack([talk, talk[::-1]], axis=1), 16000, subtype="PCM_16"
    )
    git(published.repository, "commit", "--quiet", "--all", "--message", "record both sides")
    published = Published(published.origin, published.tables, git(published.repository, "rev-parse", "HEAD"))
    published.list_files()
    published.list_cuts("talk-01\ttalk\t1\t0.5\t1.0\ttalks\tanna\tagreed\tGOOD MORNING")
    (heard,) = read_manifest(made(published, tmp_path))
    assert np.array_equal(heard.samples(), talk[::-1][8000:16000])


def test_a_missing_commit_is_named(published: Published, tmp_path: Path) -> None:
    """A commit that the repository does not have is an error, and no set is written."""
    published.list_files(commit="1" * 40)
    with pytest.raises(CorpusError, match=f"anna/talks has no commit {'1' * 40}, or it cannot be fetched into "):
        made(published, tmp_path)
    assert not list((tmp_path / "set").iterdir())


def test_a_missing_file_is_named(published: Published, tmp_path: Path) -> None:
    """So is a file that is not in the commit."""
    published.list_files(path="sounds/speech.flac")
    with pytest.raises(CorpusError, match=r"anna/talks has no file sounds/speech\.flac at commit [0-9a-f]{40}"):
        made(published, tmp_path)


def test_a_changed_file_is_named(published: Published, tmp_path: Path) -> None:
    """A file with another content than the table says is not used."""
    published.list_files(blob="2" * 40)
    with pytest.raises(CorpusError, match=f"sounds/talk.flac has the hash [0-9a-f]{{40}}, the table {'2' * 40}"):
        made(published, tmp_path)


@pytest.mark.parametrize("content", [b"fLaC" + bytes(64), b"no sound at all"])
def test_damaged_audio_is_named(published: Published, tmp_path: Path, content: bytes) -> None:
    """A file that cannot be decoded is named by its repository and path."""
    (published.repository / "sounds" / "talk.flac").write_bytes(content)
    git(published.repository, "commit", "--quiet", "--all", "--message", "damage a recording")
    published = Published(published.origin, published.tables, git(published.repository, "rev-parse", "HEAD"))
    published.list_files()
    with pytest.raises(CorpusError, match=r"anna/talks, sounds/talk\.flac "):
        made(published, tmp_path)


@pytest.mark.parametrize("cut", ["talk\t0\t20.0\t25.0", "talk\t1\t0.0\t1.0"])
def test_a_part_that_is_not_there_is_named(published: Published, tmp_path: Path, cut: str) -> None:
    """A recording may not end after its file, nor be of a channel that the file lacks."""
    published.list_cuts(f"talk-01\t{cut}\ttalks\tanna\tagreed\tGOOD MORNING")
    with pytest.raises(CorpusError, match=r"talk-01 ends at .*: its file has 24\.72 s and 1 channel"):
        made(published, tmp_path)


@pytest.mark.parametrize(
    ("cut", "complaint"),
    [
        ("talk-01\ttalk\t0\t0.5\t1.0\ttalks\tanna\tagreed", "8 columns instead of 9"),
        ("talk-01\tsong\t0\t0.5\t1.0\ttalks\tanna\tagreed\tLA LA", "held_out_files.tsv has no file 'song'"),
        ("talk-01\ttalk\t0\t0.5\t1.0\ttalks\tanna\tguessed\tGOOD", "'guessed' is no label; there are source, agreed"),
        ("talk-01\ttalk\t0\t1.0\t0.5\ttalks\tanna\tagreed\tGOOD", "there is nothing between 1.0 and 0.5 s"),
        ("talk-01\ttalk\tleft\t0.5\t1.0\ttalks\tanna\tagreed\tGOOD", "invalid literal"),
        ("talk-01\ttalk\t0\t0.5\t1.0\ttalks\tanna\tagreed\tGood, 2", "is not a text in capitals"),
        (f"{CUTS[0]}\n{CUTS[0]}", "talk-01 was listed before"),
    ],
)
def test_a_broken_table_is_refused(published: Published, cut: str, complaint: str) -> None:
    """Each kind of mistake has its own message, with its line."""
    published.list_cuts(cut)
    with pytest.raises(CorpusError, match=complaint) as error:
        Tables.read(published.tables)
    assert "held_out.tsv, line " in str(error.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file"),
        ("file\tpath\n", "the header must be file, repository"),
        (FILES_HEADER, "has no rows"),
    ],
)
def test_a_table_that_says_nothing_is_refused(published: Published, content: str | None, complaint: str) -> None:
    """A missing table, one of another kind and an empty one are each a sentence."""
    files = published.tables / "held_out_files.tsv"
    files.unlink()
    if content is not None:
        files.write_text(content)
    with pytest.raises(CorpusError, match=complaint):
        Tables.read(published.tables)


def test_sentences_that_are_in_other_speech_or_text_are_reported(published: Published, tmp_path: Path) -> None:
    """The same text counts, and eight words in a row, also in an archive of text; a shorter stretch does not."""
    manifest = tmp_path / "train.tsv"
    manifest.write_text(
        "corpus\ttext\nx\tGOOD MORNING\nx\tGOOD MORNING ANNA\nx\tWELL IT'S A LONG SENTENCE WITH EIGHT WORDS OR SO\n"
    )
    text = tmp_path / "text"
    text.mkdir()
    (text / "book.txt").write_text("The airplane. The airplane flew.\n")
    shutil.make_archive(f"{text}", "xztar", text)
    told: list[str] = []
    assert leaks(Tables.read(published.tables).cuts, [manifest, tmp_path / "text.tar.xz"], told.append) == 3
    assert told == [
        "train.tsv, x: good morning",
        "train.tsv, x: well it's a long sentence with eight words or so",
        "text.tar.xz, book.txt: the airplane",
    ]


def test_our_tables_are_whole() -> None:
    """Every file is used, no recording is long, and the summary counts all of them."""
    tables = Tables.read()
    assert {cut.file for cut in tables.cuts} == set(tables.files)
    assert all(0.5 < cut.end - cut.start <= 16 for cut in tables.cuts)
    assert all(file.licence for file in tables.files.values())
    counts = [int(line.split(" x ")[0]) for line in tables.summary() if line.split(" x ")[-1] in LABELS.values()]
    assert sum(counts) == len(tables.cuts)
