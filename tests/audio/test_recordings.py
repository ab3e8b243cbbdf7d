"""Recordings that are named, and recordings found in folders."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest

from streamer.audio.recordings import FFMPEG_ENDINGS, SOUNDFILE_ENDINGS, list_recordings


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A typical folder."""
    for name in ("10.wav", "9.WAV", "b/2/x.mp3", "b/a.opus", "a.mp4", ".hidden.wav", ".git/y.wav", "notes.txt", "wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_a_folder_is_all_recordings_in_it_and_below(calls: Path) -> None:
    """Recordings are found by their endings, in natural order, files before folders, without hidden files."""
    found, wrong = list_recordings(str(calls))
    assert wrong == []
    places = ["9.WAV", "10.wav", "a.mp4", "b/a.opus", "b/2/x.mp3"]
    assert [str(recording.path) for recording in found] == places
    assert [recording.name for recording in found] == [str(calls / place) for place in places]


def test_typescript_is_no_video(tmp_path: Path) -> None:
    """Both have the ending .ts. A folder of code has no recordings, but a file that is named is tried."""
    video, code = tmp_path / "talk.ts", tmp_path / "talk.d.ts"
    video.write_bytes((b"G" + bytes(187)) * 3)
    code.write_text("Great = require('great');\n" * 20)
    (tmp_path / "empty.TS").touch()
    found, wrong = list_recordings(str(tmp_path))
    assert ([recording.name for recording in found], wrong) == ([str(video)], [])
    assert [recording.name for recording in list_recordings(str(code))[0]] == [str(code)]


def test_a_file_is_itself_whatever_its_ending(calls: Path) -> None:
    """A named file is taken whatever its ending, and its place is its bare name."""
    [[recording], wrong] = list_recordings(str(calls / "b/notes.txt"))
    assert wrong == []
    assert recording.path == PurePath("notes.txt")
    [[recording], _] = list_recordings("-")
    assert (recording.name, recording.path) == ("-", PurePath("stdin"))


def test_an_empty_name_is_said() -> None:
    """An empty name, as from an unset variable of a shell, does not stand for the present folder."""
    found, [wrong] = list_recordings("")
    assert (found, str(wrong)) == ([], "the name of a recording is empty.")


def test_a_folder_without_recordings_says_so(calls: Path) -> None:
    """A folder without recordings is refused by name."""
    (calls / "empty").mkdir()
    found, [error] = list_recordings(str(calls / "empty"))
    assert found == []
    assert str(error).startswith(f"{calls}/empty is a folder without recordings")


def test_a_folder_that_cannot_be_read_is_named(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable folders are reported, and the other recordings are found."""
    usual = os.scandir

    def guarded(path: str) -> object:
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", path)
        return usual(path)

    monkeypatch.setattr(os, "scandir", guarded)  # the user of the tests may be allowed to read everything
    found, [error] = list_recordings(str(calls))
    assert [str(recording.path) for recording in found] == ["9.WAV", "10.wav", "a.mp4"]
    assert str(error) == f"{calls}/b cannot be read: Permission denied."


def test_a_link_to_the_folder_itself_is_no_endless_way(calls: Path) -> None:
    """Links to folders are not followed, those to files are."""
    (calls / "again").symlink_to(calls)
    (calls / "linked.flac").symlink_to(calls / "10.wav")
    found, _ = list_recordings(str(calls))
    places = ["9.WAV", "10.wav", "a.mp4", "linked.flac", "b/a.opus", "b/2/x.mp3"]
    assert [str(recording.path) for recording in found] == places


def test_endings_are_written_as_they_are_compared() -> None:
    """Endings are lower case with a dot, and none is in both sets."""
    assert all(ending == f".{ending.strip('.').lower()}" for ending in SOUNDFILE_ENDINGS | FFMPEG_ENDINGS)
    assert SOUNDFILE_ENDINGS.isdisjoint(FFMPEG_ENDINGS)
