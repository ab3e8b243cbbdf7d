"""The script that compares a service with PocketSphinx."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project import SAMPLES
from tests.samples import FILES
from tests.scripts.program import run, run_here

SCRIPT = "measure/compare_pocketsphinx.py"


@pytest.mark.timeout(300)
def test_both_are_compared(tmp_path: Path) -> None:
    """One command prints both error rates, their difference, and the CPU time."""
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    done = run(SCRIPT, "a.tsv", "--engine", "--cache", "cache", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, line = done.stdout.splitlines()[:2]
    assert header.split()[:3] == ["corpus", "utterances", "words"]
    assert line.split()[:3] == ["a", "1", "7"]
    assert re.search(r"^CPU seconds for a second of audio: PocketSphinx \d\.\d+, engine \d\.\d+ ", done.stdout, re.M)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_manifest_that_is_not_there(tmp_path: Path) -> None:
    """A missing manifest is reported in one sentence."""
    done = run_here(SCRIPT, "missing.tsv", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "compare_pocketsphinx: missing.tsv cannot be read: No such file or directory.\n"
