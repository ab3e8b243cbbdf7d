"""The script that labels a folder of speech by several witnesses."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project import SAMPLES, SCRIPTS
from tests.scripts.program import PATIENCE_S, run_here
from tests.workshop.labelling.scripted_witnesses import SAID, write_witness
from workshop.data.corpus import read_manifest

SCRIPT = "data/label_speech.py"


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two witnesses that differ in one of thirteen words."""
    folder = tmp_path_factory.mktemp("readers")
    return [write_witness(folder / "one"), write_witness(folder / "two", SAID.replace("windy", "wintry"))]


def started(*arguments: object) -> subprocess.Popen[str]:
    """Start the script as a program of its own."""
    command = [sys.executable, str(SCRIPTS / SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def heard(journal: Path) -> int:
    """Return the number of pieces in a journal."""
    return journal.read_bytes().count(b'"heard"') if journal.is_file() else 0


def until_heard(process: subprocess.Popen[str], journal: Path, pieces: int) -> None:
    """Wait until so many pieces are in the journal."""
    deadline = time.monotonic() + PATIENCE_S
    while heard(journal) < pieces:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_goes_on(tmp_path: Path, readers: list[Path]) -> None:
    """It is killed, stopped, and then comes to its end. No piece is heard twice, and the result is complete."""
    speech, more = tmp_path / "speech", tmp_path / "more"
    speech.mkdir()
    for number in range(40):
        shutil.copy(SAMPLES / "talk.flac", speech / f"{number}.flac")
    arguments = speech, "--output", more, "--readers", *readers, "--name", "talks"
    process = started(*arguments)
    until_heard(process, more / "journal.jsonl", 3)
    process.kill()
    process.communicate()
    killed = heard(more / "journal.jsonl")
    assert not (more / "train.tsv").exists()

    process = started(*arguments)
    until_heard(process, more / "journal.jsonl", killed + 3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (1, "stopped: the same command goes on\n")
    assert not (more / "train.tsv").exists()

    for path in list(speech.iterdir())[4:]:  # those that were not heard are not needed for the rest
        if f'"{path.name}"' not in (more / "journal.jsonl").read_text(encoding="utf-8"):
            path.unlink()
    done = run_here(SCRIPT, *arguments)
    assert done.returncode == 0, done.stderr
    left = len(list(speech.iterdir()))
    lines = [json.loads(line) for line in (more / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    pieces = [(line["recording"], line["start"]) for line in lines if "heard" in line]
    assert len(pieces) == len(set(pieces)) == 4 * left
    rows = read_manifest(more / "train.tsv")
    assert {(row.corpus, row.text) for row in rows} == {("talks", SAID.upper())}
    assert len(rows) == 4 * left
    assert f"kept {4 * left} of {4 * left} pieces" in done.stdout.splitlines()[-1]

    done = run_here(SCRIPT, *arguments, "--different", 0)
    assert f"kept 0 of {4 * left} pieces" in done.stdout
    assert done.stdout.splitlines()[0] == f"{left} of {left} recordings"


def test_no_text_of_dev_is_written(tmp_path: Path, readers: list[Path]) -> None:
    """A manifest names the texts."""
    shutil.copy(SAMPLES / "airplane.mp3", tmp_path)
    (tmp_path / "dev.tsv").write_text(f"file\ttext\n{SAMPLES / 'airplane.mp3'}\t{SAID}\n", encoding="utf-8")
    arguments = tmp_path, "--output", tmp_path / "more", "--readers", *readers
    assert "kept 1 of 1 piece" in run_here(SCRIPT, *arguments).stdout
    assert "1 a text of dev" in run_here(SCRIPT, *arguments, "--dev", tmp_path / "dev.tsv").stdout


def test_labels_are_measured_on_speech_with_texts(tmp_path: Path, readers: list[Path]) -> None:
    """A table says what is kept and how much is wrong; no speech is written."""
    manifest = tmp_path / "known.tsv"
    with manifest.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([["file", "text"], [SAMPLES / "airplane.mp3", SAID.replace("cold", "warm")]])
    done = run_here(SCRIPT, "--check", manifest, "--output", tmp_path / "checked", "--readers", *readers)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if f"{readers[1].name}, 10 %" in line and "surer" not in line)
    assert row.split()[-2:] == ["100.0,", "7.7"]
    assert not (tmp_path / "checked" / "train.tsv").exists()


def test_errors_are_one_sentence(tmp_path: Path, readers: list[Path]) -> None:
    """A folder without recordings, a reader that nobody knows, and a journal of other readers."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "speech").mkdir()
    shutil.copy(SAMPLES / "airplane.mp3", tmp_path / "speech")
    more = tmp_path / "more"
    run_here(SCRIPT, tmp_path / "speech", "--output", more, "--readers", *readers)
    for folder, own, says in (
        ("empty", readers, "without recordings"),
        ("speech", ["no-such-reader", readers[0]], "no reader no-such-reader is known"),
        ("speech", readers[::-1], "other witnesses"),
    ):
        done = run_here(SCRIPT, tmp_path / folder, "--output", more, "--readers", *own)
        assert done.returncode == 1
        assert done.stderr.startswith("label_speech: ")
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--readers", "a", "b"], "give a folder of recordings, or --check"),
        (["folder", "--readers", "a"], "two or more"),
        (["folder", "--readers", "a", "a"], "all different"),
        (["folder", "--readers", "a", "b", "--longest", "31"], "from 2 to 30"),
        (["folder", "--readers", "a", "b", "--agreeing", "2"], "less than the number of readers"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, arguments: list[str], says: str) -> None:
    """Nothing is written."""
    done = run_here(SCRIPT, *arguments, "--output", tmp_path / "more")
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "more").exists()
