"""The script that compares readers with our passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.reader.random_reader import random_weights, write_reader
from tests.project import SAMPLES
from tests.samples import FILES
from tests.scripts.program import run_here

SCRIPT = "measure/readers.py"


@pytest.mark.timeout(600)
def test_readers_stand_beside_our_passes(tmp_path: Path) -> None:
    """One command prints a line for each, with the errors by corpus and the CPU time."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    write_reader(tmp_path / "random", random_weights(), signed=False)
    arguments = ("a.tsv", "--reader", "random=random", "--cache", "cache")
    done = run_here(SCRIPT, *arguments, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = done.stdout.splitlines()
    assert header.split()[:4] == ["a", "(7", "words)", "%"]
    assert [line.split("  ")[0] for line in lines] == ["our live pass", "our second pass", "random"]
    [kept] = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    again = run_here(SCRIPT, *arguments, "--readers-only", folder=tmp_path)
    assert again.stdout.splitlines()[-1].split() == lines[-1].split()
    assert kept.stat().st_mtime_ns == before


def test_a_folder_without_a_reader_is_named(tmp_path: Path) -> None:
    """The message says which file is missing."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    done = run_here(SCRIPT, "a.tsv", "--reader", "none=none", "--readers-only", folder=tmp_path)
    assert done.returncode == 1
    assert "none/encoder_model.ort cannot be read" in done.stderr
