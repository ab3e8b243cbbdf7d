"""Where transcripts go, and what keeps one from being destroyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.audio.recording_list import ListedRecording, list_recordings
from streamer.terminal.transcript_output import MOST_AHEAD, OutputError, TranscriptOutput

FINAL = {"type": "final", "text": "hello", "start_ms": 0, "end_ms": 500, "confidence": 1.0, "words": []}
DONE = {"type": "done", "audio_ms": 1000}


def play(output: TranscriptOutput, *recordings: str, events: tuple[dict[str, Any], ...] = (FINAL, DONE)) -> None:
    """Transcribes these recordings, all with the same words."""
    for index, recording in enumerate(output.recordings):
        if recording.name in recordings:
            with output.of_recording(index) as written:
                written.begin(1000)
                for event in events:
                    written.take(event)
                written.end()
    output.close()


def named(*names: str) -> list[ListedRecording]:
    """Recordings that stand on a command line."""
    return [ListedRecording.named(name) for name in names]


def test_text_is_written_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """A final is on standard output before the recording ends; partials are not, as it is no terminal."""
    output = TranscriptOutput("text", None, named("a.wav"))
    written = output.of_recording(0)
    written.begin(None)
    written.take({"type": "partial", "text": "hel", "stable": 0, "start_ms": 0, "audio_ms": 100})
    written.take(FINAL)
    assert capsys.readouterr() == ("hello\n", "")
    assert not output.wants_partials


def test_jsonl_has_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    """What the service says is printed line by line."""
    output = TranscriptOutput("jsonl", None, named("a.wav"))
    assert output.wants_partials
    play(output, "a.wav", events=({"type": "ready"}, FINAL, DONE))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"type": "ready"}, FINAL, DONE]


@pytest.mark.parametrize("format", ["json", "srt", "vtt"])
def test_a_document_is_written_only_when_it_is_whole(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed for a recording that breaks off."""
    output = TranscriptOutput(format, None, named("a.wav", "b.wav"))
    with output.of_recording(0) as written:
        written.begin(None)
        written.take(FINAL)
    assert capsys.readouterr().out == ""
    play(output, "b.wav")
    assert capsys.readouterr().out.count("hello") == {"json": 2, "srt": 1, "vtt": 1}[format]


def test_one_file_takes_all_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --output FILE nothing is on standard output."""
    play(TranscriptOutput("json", f"{tmp_path}/all.json", named("a.wav", "b.wav")), "a.wav", "b.wav")
    lines = (tmp_path / "all.json").read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == ["a.wav", "b.wav"]
    assert capsys.readouterr() == ("", "")


def test_a_folder_takes_a_file_for_each(tmp_path: Path) -> None:
    """The files are named after the recordings."""
    recordings = ["x/a.wav", "x/b.tar.ogg", "-"]
    play(TranscriptOutput("srt", str(tmp_path), named(*recordings)), *recordings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.srt", "b.tar.srt", "stdin.srt"]


def test_silence_leaves_an_empty_file(tmp_path: Path) -> None:
    """Whoever asked for a file gets one, also when nobody spoke."""
    play(TranscriptOutput("text", f"{tmp_path}/a.txt", named("a.wav")), "a.wav", events=(DONE,))
    assert (tmp_path / "a.txt").read_text() == ""


def test_a_failure_does_not_touch_an_earlier_file(tmp_path: Path) -> None:
    """The old transcript is there until there is a new one."""
    (tmp_path / "a.json").write_text("old")
    output = TranscriptOutput("json", f"{tmp_path}/a.json", named("a.wav"))
    with output.of_recording(0) as written:
        written.begin(None)
        written.take(FINAL)
    output.close()
    assert (tmp_path / "a.json").read_text() == "old"


@pytest.mark.parametrize(
    ("format", "output", "recordings", "words"),
    [
        ("text", "missing/a.txt", ["a.wav"], "there is no folder"),
        ("text", "missing/", ["a.wav"], "there is no such folder"),
        ("srt", "a.srt", ["a.wav", "b.wav"], "give --output a folder"),
        ("text", "", ["x/a.wav", "y/a.wav"], "two recordings would both be written to"),
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
        TranscriptOutput(format, output or ".", named(*recordings))
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_sentence() -> None:
    """What the system says about the file is passed on."""
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left"):
        play(TranscriptOutput("text", "/dev/full", named("a.wav")), "a.wav")


def test_an_error_that_is_not_fatal_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no part of the transcript."""
    play(
        TranscriptOutput("text", None, named("a.wav")),
        "a.wav",
        events=({"type": "error", "message": "Hm."}, FINAL, DONE),
    )
    assert capsys.readouterr() == ("hello\n", "streamer: a.wav: Hm.\n")


def test_lines_tell_their_channel(capsys: pytest.CaptureFixture[str]) -> None:
    """Where channels are recognised apart, each line begins with its own, counted from 1."""
    play(
        TranscriptOutput("text", None, named("a.wav")),
        "a.wav",
        events=({**FINAL, "channel": 1}, {**FINAL, "channel": 0}, DONE),
    )
    assert capsys.readouterr().out == "[2] hello\n[1] hello\n"


def test_recordings_have_their_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """What is heard at the same time is written in the order of the command line, as soon as that is possible."""
    output = TranscriptOutput("text", None, named("a.wav", "b.wav", "c.wav", "d.wav"))
    outputs = [output.of_recording(index) for index in range(3)]
    for index in (2, 0, 1):
        outputs[index].begin(None)
        outputs[index].take({**FINAL, "text": f"{index} first"})
    assert capsys.readouterr().out == "0 first\n"
    with outputs[1]:
        outputs[1].end()
    outputs[0].take({**FINAL, "text": "0 second"})
    assert capsys.readouterr().out == "0 second\n"
    with outputs[0]:
        outputs[0].end()
    assert capsys.readouterr().out == "1 first\n2 first\n"
    outputs[2].take({**FINAL, "text": "2 second"})
    assert capsys.readouterr().out == "2 second\n"
    with outputs[2], output.of_recording(3) as last:
        last.take(FINAL)
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "hello\n"


def test_what_waits_for_its_turn_is_bounded(tmp_path: Path) -> None:
    """Nothing begins too far ahead of the recording that is being written; with a file each there is no turn."""
    recordings = named(*(f"{number}.wav" for number in range(MOST_AHEAD + 2)))
    output = TranscriptOutput("text", None, recordings)
    assert output.may_begin(MOST_AHEAD - 1)
    assert not output.may_begin(MOST_AHEAD)
    with output.of_recording(0):
        pass
    assert output.may_begin(MOST_AHEAD)
    assert TranscriptOutput("text", str(tmp_path), recordings).may_begin(MOST_AHEAD + 1)


def test_an_interrupted_recording_keeps_what_is_final(capsys: pytest.CaptureFixture[str]) -> None:
    """A document of what was heard so far; none if that is nothing."""
    output = TranscriptOutput("json", None, named("a.wav", "b.wav"))
    for events in ((FINAL,), ()):
        with output.of_recording(len(events) ^ 1) as written:
            written.begin(None)
            for event in events:
                written.take(event)
            written.break_off()
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["text"] == "hello"


def test_a_folder_keeps_the_folders_that_were_named(tmp_path: Path) -> None:
    """What lies below is below again; recordings that differ only in their ending keep that."""
    for name in ("in/talk.wav", "in/talk.mp3", "in/a/talk.wav", "in/a/b/other.ogg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "out").mkdir()
    recordings, _ = list_recordings(f"{tmp_path}/in")
    output = TranscriptOutput("text", f"{tmp_path}/out", recordings)
    assert list((tmp_path / "out").iterdir()) == []  # nothing before there is something to write
    play(output, *(recording.name for recording in recordings))
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.txt")}
    assert written == {"talk.wav.txt", "talk.mp3.txt", "a/talk.txt", "a/b/other.txt"}


def test_two_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    """Neither overwrites the other, and the sentence has both."""
    with pytest.raises(OutputError, match=r"would both be written to .*/a\.wav\.txt: x/a\.wav and y/a\.wav"):
        TranscriptOutput("text", str(tmp_path), named("x/a.wav", "y/a.wav"))


def test_files_do_not_stay_open(tmp_path: Path) -> None:
    """A thousand recordings need no thousand open files."""
    recordings = named(*(f"{number}.wav" for number in range(100)))
    output = TranscriptOutput("text", str(tmp_path), recordings)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for index in range(100):
        with output.of_recording(index) as written:
            written.take(FINAL)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert len(list(tmp_path.iterdir())) == 100
