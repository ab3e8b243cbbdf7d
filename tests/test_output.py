"""Where transcripts go, and what keeps one from being destroyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.output import Output, OutputError

FINAL = {"type": "final", "text": "hello", "start_ms": 0, "end_ms": 500, "confidence": 1.0, "words": []}
DONE = {"type": "done", "audio_ms": 1000}


def play(output: Output, *recordings: str, events: tuple[dict[str, Any], ...] = (FINAL, DONE)) -> None:
    """Transcribes these recordings, all with the same words."""
    for recording in recordings:
        output.begin(recording, 1000)
        for event in events:
            output.take(event)
        output.end()
    output.close()


def test_text_is_written_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """A final is on standard output before the recording ends; partials are not, as it is no terminal."""
    output = Output("text", None, ["a.wav"])
    output.begin("a.wav", None)
    output.take({"type": "partial", "text": "hel", "stable": 0, "start_ms": 0, "audio_ms": 100})
    output.take(FINAL)
    assert capsys.readouterr() == ("hello\n", "")
    assert not output.wants_partials


def test_jsonl_has_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    """What the service says is printed line by line."""
    output = Output("jsonl", None, ["a.wav"])
    assert output.wants_partials
    play(output, "a.wav", events=({"type": "ready"}, FINAL, DONE))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"type": "ready"}, FINAL, DONE]


@pytest.mark.parametrize("format", ["json", "srt", "vtt"])
def test_a_document_is_written_only_when_it_is_whole(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed for a recording that breaks off."""
    output = Output(format, None, ["a.wav", "b.wav"])
    output.begin("a.wav", None)
    output.take(FINAL)
    assert capsys.readouterr().out == ""
    play(output, "b.wav")
    assert capsys.readouterr().out.count("hello") == {"json": 2, "srt": 1, "vtt": 1}[format]


def test_one_file_takes_all_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --output FILE nothing is on standard output."""
    play(Output("json", f"{tmp_path}/all.json", ["a.wav", "b.wav"]), "a.wav", "b.wav")
    lines = (tmp_path / "all.json").read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == ["a.wav", "b.wav"]
    assert capsys.readouterr() == ("", "")


def test_a_folder_takes_a_file_for_each(tmp_path: Path) -> None:
    """The files are named after the recordings."""
    recordings = ["x/a.wav", "x/b.tar.ogg", "-"]
    play(Output("srt", str(tmp_path), recordings), *recordings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.srt", "b.tar.srt", "stdin.srt"]


def test_silence_leaves_an_empty_file(tmp_path: Path) -> None:
    """Whoever asked for a file gets one, also when nobody spoke."""
    play(Output("text", f"{tmp_path}/a.txt", ["a.wav"]), "a.wav", events=(DONE,))
    assert (tmp_path / "a.txt").read_text() == ""


def test_a_failure_does_not_touch_an_earlier_file(tmp_path: Path) -> None:
    """The old transcript is there until there is a new one."""
    (tmp_path / "a.json").write_text("old")
    output = Output("json", f"{tmp_path}/a.json", ["a.wav"])
    output.begin("a.wav", None)
    output.take(FINAL)
    output.close()
    assert (tmp_path / "a.json").read_text() == "old"


@pytest.mark.parametrize(
    ("format", "output", "recordings", "words"),
    [
        ("text", "missing/a.txt", ["a.wav"], "there is no folder"),
        ("text", "missing/", ["a.wav"], "there is no such folder"),
        ("srt", "a.srt", ["a.wav", "b.wav"], "give --output a folder"),
        ("text", "", ["x/a.wav", "y/a.wav"], "two of the recordings would both become"),
        ("text", "talk.wav", ["talk.wav"], "would overwrite the recording"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, output: str, recordings: list[str], words: str
) -> None:
    """Before anything is transcribed, in one sentence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.wav").write_bytes(b"RIFF")
    with pytest.raises(OutputError, match=words) as caught:
        Output(format, output or ".", recordings)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_sentence() -> None:
    """What the system says about the file is passed on."""
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left"):
        play(Output("text", "/dev/full", ["a.wav"]), "a.wav")


def test_an_error_that_is_not_fatal_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no part of the transcript."""
    play(Output("text", None, ["a.wav"]), "a.wav", events=({"type": "error", "message": "Hm."}, FINAL, DONE))
    assert capsys.readouterr() == ("hello\n", "streamer: a.wav: Hm.\n")


def test_lines_tell_their_channel(capsys: pytest.CaptureFixture[str]) -> None:
    """Where channels are recognised apart, each line begins with its own, counted from 1."""
    play(Output("text", None, ["a.wav"]), "a.wav", events=({**FINAL, "channel": 1}, {**FINAL, "channel": 0}, DONE))
    assert capsys.readouterr().out == "[2] hello\n[1] hello\n"
