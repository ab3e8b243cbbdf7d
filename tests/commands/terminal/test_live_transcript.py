"""What a dictation shows and writes: its files, subtitles that grow, and the level meter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streamer.commands.terminal.live_transcript import CELLS, LiveTranscript, level_bar
from streamer.commands.terminal.transcript_files import APPEND, OVERWRITE, OutputError
from tests.commands.terminal.screen import Screen

FINAL = {"type": "final", "text": "hello", "start_ms": 0, "end_ms": 500, "confidence": 1.0, "words": []}
DONE = {"type": "done", "audio_ms": 1000}


def dictate(transcript: LiveTranscript, *events: Mapping[str, Any]) -> None:
    """Take the events of a session."""
    transcript.begin()
    for event in events:
        transcript.take(event)
    transcript.end()
    transcript.close()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """An earlier file."""
    path = tmp_path / "notes.txt"
    path.write_text("the work of an hour\n")
    return path


def test_a_file_that_is_there_is_not_touched(notes: Path) -> None:
    """An existing file is refused, and the message says which options change that."""
    with pytest.raises(OutputError) as caught:
        LiveTranscript("text", str(notes))
    ways = "--append adds to its end, --overwrite replaces it when the new one is complete"
    assert str(caught.value) == f"{notes} exists already: {ways}."
    assert notes.read_text() == "the work of an hour\n"


def test_new_text_goes_behind_the_old(notes: Path) -> None:
    """With --append, text is added as soon as it is spoken; silence adds nothing."""
    dictate(LiveTranscript("text", str(notes), existing=APPEND), DONE)
    assert notes.read_text() == "the work of an hour\n"
    dictate(LiveTranscript("text", str(notes), existing=APPEND), FINAL, DONE)
    assert notes.read_text() == "the work of an hour\nhello\n"


def test_silence_replaces_nothing(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --overwrite, silence does not replace the old file."""
    dictate(LiveTranscript("vtt", str(notes), existing=OVERWRITE), DONE)
    assert {path.name for path in notes.parent.iterdir()} == {"notes.txt"}
    assert notes.read_text() == "the work of an hour\n"
    assert capsys.readouterr().err == "streamer: no words were recognised: the file was not changed.\n"


def test_a_dictation_that_breaks_off_replaces_nothing(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words of an incomplete dictation are written beside the old file; a complete one replaces it."""
    dictate(LiveTranscript("text", str(notes), existing=OVERWRITE), FINAL)
    assert notes.read_text() == "the work of an hour\n"
    assert notes.with_name("notes.partial.txt").read_text() == "hello\n\n[stopped at 0:00]\n"
    assert f"its text is in {notes.with_name('notes.partial.txt')}" in capsys.readouterr().err
    dictate(LiveTranscript("text", str(notes), existing=OVERWRITE), FINAL, DONE)
    assert {path.name: path.read_text() for path in notes.parent.iterdir()} == {"notes.txt": "hello\n"}


def test_several_formats_at_a_time(tmp_path: Path) -> None:
    """Each format has its own file in a new folder."""
    dictate(LiveTranscript("text,srt,json", f"{tmp_path}/said/"), FINAL, DONE)
    assert {path.name for path in (tmp_path / "said").iterdir()} == {
        f"microphone.{end}" for end in ("txt", "srt", "json")
    }
    assert json.loads((tmp_path / "said" / "microphone.json").read_text())["text"] == "hello"


@pytest.mark.parametrize("format", ["text", "srt"])
def test_what_goes_into_a_file_is_seen_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    """Finals stay on the terminal, even if something else is written to a file."""
    screen = Screen(60)
    monkeypatch.setattr(sys, "stderr", screen.stream)
    dictate(LiveTranscript(format, f"{tmp_path}/a.txt"), FINAL, DONE)
    assert screen.lines() == ["[0:00.0] hello"]
    assert "hello" in (tmp_path / "a.txt").read_text()
    screen.close()


def test_what_is_redirected_into_a_file_is_seen_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finals stay on the terminal if standard output goes to a file."""
    screen = Screen(60)
    monkeypatch.setattr(sys, "stderr", screen.stream)
    with (tmp_path / "a.txt").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        dictate(LiveTranscript("text", None), FINAL, DONE)
        assert os.fstat(stream.fileno()).st_size == 6
    assert screen.lines() == ["[0:00.0] hello"]
    screen.close()


def test_a_file_has_paragraphs_and_a_pipe_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text in a file is as that of a recording; whatever reads a pipe gets a line for each final."""
    first = {**FINAL, "text": "Hello there.", "spoken": "hello there"}
    second = {**first, "text": "How are you?", "start_ms": 900, "end_ms": 1500}
    later = {**first, "text": "Much later.", "start_ms": 9_000, "end_ms": 9_500}
    dictate(LiveTranscript("text", f"{tmp_path}/a.txt"), first, second, later, DONE)
    assert (tmp_path / "a.txt").read_text() == "Hello there. How are you?\n\nMuch later.\n"
    dictate(LiveTranscript("text", None), first, second, later, DONE)
    assert capsys.readouterr().out == "Hello there.\nHow are you?\nMuch later.\n"


@pytest.mark.parametrize(
    ("peak", "drawn"),
    [
        (0.0, ""),
        (0.001, ""),
        (10 ** (-27 / 20), "████"),
        (10 ** (-26 / 20), "████▏"),
        (0.95, "███████▉"),
        (1.0, "████████!"),
    ],
)
def test_a_bar_is_as_long_as_it_is_loud(peak: float, drawn: str) -> None:
    """The bar shows decibels, has a constant width, and a mark where audio is clipped."""
    assert level_bar(peak).rstrip() == drawn
    assert len(level_bar(peak)) == CELLS + 1


def test_a_bar_without_special_characters() -> None:
    """The plain bar is ASCII."""
    assert level_bar(10 ** (-27 / 20), plain=True) == "####     "
