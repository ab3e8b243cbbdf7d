"""The folder for temporary files, and the message if it has no space."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from streamer.machine import temporary_folder
from streamer.machine.temporary_folder import REMEDY, free_bytes, wanted_folder
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
    assert wanted_folder() == temporary_folder.temporary_folder() == folder
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
    """Python would use the current folder if no other one has space."""
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    with pytest.raises(OSError, match=REMEDY):
        temporary_folder.temporary_folder()
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(OSError, match=REMEDY):
        temporary_folder.temporary_folder()
