"""The folder for temporary files, and the message if it has no space."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from streamer.machine import temporary_folder
from streamer.machine.temporary_folder import NO_HOME, REMEDY, free_bytes, home_folder, preferred_folder, user_folder
from streamer.triton import MODEL, TritonError
from streamer.triton.repository import asr_repository
from streamer.triton.server import TritonServer


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that TMPDIR names."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_the_folder_that_was_named(folder: Path) -> None:
    """The named folder is used if it has space."""
    assert preferred_folder() == temporary_folder.temporary_folder() == folder
    assert free_bytes(folder) > 0
    assert free_bytes(folder / "missing") == 0


def test_a_full_folder_is_named_with_its_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has a remedy, also when a Triton was to be started."""
    monkeypatch.setattr(temporary_folder, "LEAST", 1 << 60)
    with pytest.raises(OSError, match="is full") as caught:
        temporary_folder.temporary_folder()
    assert caught.value.strerror == f"the temporary folder {folder} is full: {REMEDY}"
    with pytest.raises(TritonError) as refused:
        TritonServer(asr_repository(), models=[MODEL]).start()
    assert str(refused.value) == f"Triton could not be started: {caught.value.strerror}"


def test_the_present_folder_is_no_place_for_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is not used for temporary files, although Python would use it if no other has space."""
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    with pytest.raises(OSError, match=REMEDY):
        temporary_folder.temporary_folder()
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(OSError, match=REMEDY):
        temporary_folder.temporary_folder()


def test_the_folder_that_xdg_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable names the folder, unless it is relative."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_folder("XDG_CACHE_HOME", ".cache") == tmp_path
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert user_folder("XDG_CACHE_HOME", ".cache") == Path.home() / ".cache"


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home folder has one in which nothing is found."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert home_folder() == NO_HOME
    assert not user_folder("XDG_CACHE_HOME", ".cache").exists()
