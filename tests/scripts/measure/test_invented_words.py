"""The script that counts words in sounds without speech."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamer.models.readers import find_reader
from tests.project import BUNDLE, SAMPLES
from tests.samples import FILES
from tests.scripts.program import run_here

SCRIPT = "measure/invented_words.py"


@pytest.mark.timeout(300)
def test_each_pass_has_a_column(tmp_path: Path) -> None:
    """A line for each folder has its minutes and the words of each pass: here of speech, so there are some."""
    assert find_reader("moonshine-tiny") is not None
    (tmp_path / "speech").mkdir()
    shutil.copy(SAMPLES / FILES[2], tmp_path / "speech")
    done = run_here(SCRIPT, tmp_path / "speech", "--reader", "moonshine-tiny", "--bundle", BUNDLE)
    assert (done.returncode, done.stderr) == (0, "")
    header, line = done.stdout.splitlines()
    assert header.split("  ")[0] == "invented words"
    assert header.endswith("first pass  second pass  moonshine-tiny")
    name, minutes, *words = line.split()
    assert (name, minutes) == ("speech", "0.1")
    assert all(5 <= int(count) <= 9 for count in words)


def test_what_is_no_sound_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is counted as failed, and the status says so; an empty folder is refused."""
    assert run_here(SCRIPT, tmp_path).returncode == 2
    (tmp_path / "notes.txt").write_text("no sound")
    done = run_here(SCRIPT, tmp_path, "--bundle", BUNDLE)
    assert done.returncode == 1
    assert "notes.txt" in done.stderr


def test_a_reader_that_is_not_here(tmp_path: Path) -> None:
    """An unknown name is reported in one sentence."""
    (tmp_path / "notes.txt").write_text("no sound")
    done = run_here(SCRIPT, tmp_path, "--reader", "none")
    assert done.returncode == 1
    assert done.stderr.startswith("invented_words: ")
