"""The script that measures hotwords, on recordings with a second pass and with a reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.models.readers import find_reader
from tests.project import BUNDLE, SAMPLES
from tests.samples import FILES
from tests.scripts.program import run_here

SCRIPT = "measure/hotwords.py"


@pytest.mark.timeout(300)
def test_recordings_are_read_with_and_without_a_reader(tmp_path: Path) -> None:
    """Each pass has a table, in which the own rare words of a recording are found."""
    assert find_reader("moonshine-tiny") is not None
    (tmp_path / "a.tsv").write_text(f"file\ttext\n{SAMPLES / FILES[2]}\tthe airplane rose gracefully into the sky\n")
    # So high a bound makes each of these words but the shortest ones rare.
    arguments = ("--manifest", tmp_path / "a.tsv", "--reader", "moonshine-tiny", "--bundle", BUNDLE, "--rare", 1e-3)
    done = run_here(SCRIPT, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
    assert [row[0].strip() for row in rows] == 2 * [
        "hotwords",
        "none",
        "own,  10 distractors",
        "none, none said",
        "10, none said",
    ]
    titles = [line for line in done.stdout.splitlines() if "|" not in line]
    assert titles == ["1 recording with the second pass", "1 recording with moonshine-tiny"]
    for row in (rows[2], rows[7]):
        assert int(row[2]) >= 2
        assert float(row[3]) == 100


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """Either prepared speech or a manifest is needed, and a manifest that exists."""
    assert run_here(SCRIPT, "--work", tmp_path).returncode == 2
    done = run_here(SCRIPT, "--manifest", tmp_path / "none.tsv", "--bundle", BUNDLE)
    assert done.returncode == 1
    assert "none.tsv cannot be read" in done.stderr
