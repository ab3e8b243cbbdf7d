"""Transcripts that were saved, written in other formats, without a service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.command_run import AWAY, streamer_here

CASES = json.loads(Path(__file__).parents[1].joinpath("base", "transcript_cases.json").read_text(encoding="utf-8"))


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, str]:
    """A saved transcript in a file, and what it is in other formats."""
    case: dict[str, str] = next(each for each in CASES if each["name"] == "stopped")
    (tmp_path / "edited.json").write_text(json.dumps(case["json"]))
    return case


def test_a_transcript_becomes_any_format(tmp_path: Path, saved: dict[str, str]) -> None:
    """Several at once are a file each; no service is asked, and nothing is lost on the way to JSON and back."""
    command = ("edited.json", "--server", AWAY)
    done = streamer_here("--format", "srt,vtt,text,json,jsonl", "-o", "out/", *command, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert {ending: written[f"edited.{ending}"] for ending in ("srt", "vtt", "txt")} == {
        "srt": saved["srt"],
        "vtt": saved["vtt"],
        "txt": saved["text"],
    }
    assert json.loads(written["edited.json"]) == saved["json"]
    assert json.loads(written["edited.jsonl"].splitlines()[-1])["type"] == "stopped"
    assert streamer_here(*command, "--times", folder=tmp_path).stdout == saved["times"]
    streamer_here(*command, "-o", "talk.srt", folder=tmp_path)
    assert (tmp_path / "talk.srt").read_text() == saved["srt"]


def test_names_of_channels(tmp_path: Path) -> None:
    """Who speaks, as the page has saved it, is in every format of the command too."""
    case = next(each for each in CASES if each["name"] == "names of channels")
    (tmp_path / "call.json").write_text(json.dumps(case["json"]))
    streamer_here("call.json", "--format", "srt,vtt,text,json", "-o", "out/", "--server", AWAY, folder=tmp_path)
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert [written[f"call.{ending}"] for ending in ("srt", "vtt", "txt")] == [case["srt"], case["vtt"], case["text"]]
    assert json.loads(written["call.json"]) == case["json"]
    assert streamer_here("call.json", "--times", "--server", AWAY, folder=tmp_path).stdout == case["times"]


def test_transcripts_of_several_recordings(tmp_path: Path, saved: dict[str, str]) -> None:
    """A file with a transcript in each line gives a heading for each, or a file with the name of its recording."""
    values = [{**json.loads((tmp_path / "edited.json").read_text()), "file": f"calls/{name}.wav"} for name in "ab"]
    (tmp_path / "all.json").write_text("".join(f"{json.dumps(value)}\n" for value in values))
    done = streamer_here("all.json", folder=tmp_path)
    assert done.stdout == f"# calls/a.wav\n\n{saved['text']}\n# calls/b.wav\n\n{saved['text']}"
    streamer_here("all.json", "--format", "vtt", "-o", "out/", folder=tmp_path)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.vtt", "b.vtt"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("missing.json",), 1, "streamer: missing.json cannot be read: No such file or directory."),
        (("broken.json",), 1, "streamer: broken.json is not JSON in line 1."),
        (("edited.json", "talk.wav"), 2, "edited.json is a transcript, and others are recordings: give them in two"),
        (("edited.json", "--format", "json", "-o", "."), 2, "that would overwrite edited.json, which is read."),
        (("edited.json", "-o", "talk.doc"), 2, "its ending does not say which format it should have"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    tmp_path: Path, saved: dict[str, str], arguments: tuple[str, ...], status: int, words: str
) -> None:
    """Mistakes are named, and the saved transcript stays."""
    (tmp_path / "broken.json").write_text("{")
    done = streamer_here(*arguments, folder=tmp_path)
    assert done.returncode == status
    assert words in done.stderr
    assert json.loads((tmp_path / "edited.json").read_text()) == saved["json"]


@pytest.mark.usefixtures("saved")
def test_a_page_has_the_sound_that_lies_beside(tmp_path: Path) -> None:
    """A page for reading has the sound if the recording is beside the transcript; otherwise the command says so."""
    done = streamer_here("edited.json", "-o", "a.html", "--server", AWAY, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "streamer: the page has no sound, because talk.wav does not exist.\n")
    assert 'id="sound"' not in (tmp_path / "a.html").read_text()
    soundfile.write(tmp_path / "talk.wav", np.zeros(16_000, np.int16), 16_000)
    done = streamer_here("edited.json", "-o", "b.html", "--server", AWAY, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'id="sound" data-type="audio/mpeg">' in (tmp_path / "b.html").read_text()
