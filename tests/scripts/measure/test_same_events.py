"""The script that compares the events of recordings in any company, and with those of another checkout."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
import soundfile

from streamer.audio.audio_file import read_audio
from streamer.base.package import shipped
from tests.scripts.program import run, run_here
from workshop.data.corpus import COLUMNS

SECONDS = 3


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """A folder with two recordings, as the given speech has them."""
    audio = read_audio(shipped("audio_samples/talk.flac"))
    rows = ["\t".join(COLUMNS)]
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for number in range(2):
            content = io.BytesIO()
            samples = audio[number * SECONDS * 16_000 : (number + 1) * SECONDS * 16_000]
            soundfile.write(content, samples, 16_000, format="WAV")
            member = tarfile.TarInfo(f"{number}.wav")
            member.size = len(content.getvalue())
            shard.addfile(member, io.BytesIO(content.getvalue()))
            rows.append("\t".join(["shard.tar", member.name, str(SECONDS), "talk", "one", "WORDS"]))
    (tmp_path / "dev.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_all_arrangements_have_the_same_events(speech: Path) -> None:
    """Each arrangement has a line with the same hash, and the first one is saved."""
    saved = speech / "saved.json"
    done = run("measure/same_events.py", "--speech", speech, "--save", saved)
    assert done.returncode == 0, done.stderr
    lines = [line.strip("|").split("|") for line in done.stdout.splitlines()[2:]]
    assert len(lines) > 2
    assert {(cells[1].strip(), cells[2].strip()) for cells in lines} == {("2", "0")}
    assert len({cells[3] for cells in lines}) == 1
    assert set(json.loads(saved.read_text())) == {"shard/0.wav", "shard/1.wav"}


def test_another_result_is_named(speech: Path) -> None:
    """A recording with other events than in the file is counted and named, and the exit status says so."""
    other = speech / "other.json"
    other.write_text(json.dumps({"shard/0.wav": "0", "shard/1.wav": "1"}))
    done = run_here("measure/same_events.py", "--speech", speech, "--quick", "--compare", other)
    assert done.returncode == 1
    assert "different: shard/0.wav, shard/1.wav" in done.stderr


def test_speech_that_is_not_there(tmp_path: Path) -> None:
    """One sentence names what is missing."""
    done = run_here("measure/same_events.py", "--speech", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"same_events: the manifest {tmp_path / 'dev.tsv'} is missing")
