"""Where transcripts go, and how earlier ones are protected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.audio.recordings import ListedRecording, list_recordings
from streamer.commands.terminal.transcript_files import APPEND, OVERWRITE, SKIP, formats_for
from streamer.commands.terminal.transcript_output import MOST_AHEAD, OutputError, TranscriptOutput
from tests.file_size_limit import most_bytes

FINAL = {"type": "final", "text": "hello", "start_ms": 0, "end_ms": 500, "confidence": 1.0, "words": []}
DONE = {"type": "done", "audio_ms": 1000}


def play(output: TranscriptOutput, *recordings: str, events: tuple[dict[str, Any], ...] = (FINAL, DONE)) -> None:
    """Transcribe these recordings, all with the same words."""
    for index, recording in enumerate(output.recordings):
        if recording.name in recordings:
            with output.of_recording(index) as written:
                written.begin(1000)
                for event in events:
                    written.take(event)
                written.end()
    output.close()


def named(*names: str) -> list[ListedRecording]:
    """Recordings named on a command line."""
    return [ListedRecording.of_name(name) for name in names]


def test_text_is_written_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """A final is on standard output before the recording ends. Partials are not, because it is not a terminal."""
    output = TranscriptOutput("text", None, named("a.wav"))
    written = output.of_recording(0)
    written.begin(None)
    written.take({"type": "partial", "text": "hel", "stable": 0, "start_ms": 0, "audio_ms": 100})
    written.take(FINAL)
    assert capsys.readouterr() == ("hello", "")
    assert not output.wants_partials


def test_jsonl_has_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Every event of the service is printed, one on a line."""
    output = TranscriptOutput("jsonl", None, named("a.wav"))
    assert output.wants_partials
    play(output, "a.wav", events=({"type": "ready"}, FINAL, DONE))
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"type": "ready"}, FINAL, DONE]


@pytest.mark.parametrize("format", ["json", "srt", "vtt"])
def test_a_document_is_written_only_when_it_is_whole(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed for a recording that fails."""
    output = TranscriptOutput(format, None, named("a.wav"))
    with output.of_recording(0) as written:
        written.begin(None)
        written.take(FINAL)
    assert capsys.readouterr().out == ""
    play(TranscriptOutput(format, None, named("b.wav")), "b.wav")
    assert capsys.readouterr().out.count("hello") == {"json": 2, "srt": 1, "vtt": 1}[format]


def test_one_file_takes_all_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --output FILE, nothing goes to standard output."""
    play(TranscriptOutput("json", f"{tmp_path}/all.json", named("a.wav", "b.wav")), "a.wav", "b.wav")
    lines = (tmp_path / "all.json").read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == ["a.wav", "b.wav"]
    assert capsys.readouterr() == ("", "")


def test_a_folder_takes_a_file_for_each(tmp_path: Path) -> None:
    """The files have the names of the recordings."""
    recordings = ["x/a.wav", "x/b.tar.ogg", "-"]
    play(TranscriptOutput("srt", str(tmp_path), named(*recordings)), *recordings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.srt", "b.tar.srt", "stdin.srt"]


def test_silence_leaves_an_empty_file(tmp_path: Path) -> None:
    """A recording without words leaves an empty file."""
    play(TranscriptOutput("text", f"{tmp_path}/a.txt", named("a.wav")), "a.wav", events=(DONE,))
    assert (tmp_path / "a.txt").read_text() == ""


def test_a_failure_does_not_touch_an_earlier_file(tmp_path: Path) -> None:
    """An old transcript stays until the new one is complete."""
    (tmp_path / "a.json").write_text("old")
    output = TranscriptOutput("json", f"{tmp_path}/a.json", named("a.wav"), existing=OVERWRITE)
    with output.of_recording(0) as written:
        written.begin(None)
        written.take(FINAL)
    output.close()
    assert (tmp_path / "a.json").read_text() == "old"


@pytest.mark.parametrize(
    ("format", "output", "recordings", "words"),
    [
        ("text", "missing/a.txt", ["a.wav"], "the folder missing does not exist"),
        ("text", "talk.wav/a.txt", ["a.wav"], "talk.wav is not a folder"),
        ("text", "talk.wav/", ["a.wav"], "talk.wav is not a folder"),
        ("srt", "", ["a.wav"], "a.srt exists already: --skip-existing skips it, --overwrite replaces it"),
        ("text", "", ["a.wav"], "a.txt exists already: --skip-existing skips it, --append adds to its end"),
        ("srt,json", "a.srt", ["a.wav"], "several formats need a folder"),
        ("srt,json", "talk.wav", ["a.wav"], "several formats need a folder"),
        ("text", "", ["b.wav", "b.partial.wav"], "until it is complete, but another transcript has this name"),
        ("srt", "a.srt", ["a.wav", "b.wav"], "give a folder with --output"),
        ("text", "", ["x/a.wav", "y/a.wav"], "two recordings would both be written to"),
        ("text", "talk.wav", ["talk.wav"], "would overwrite talk.wav, which is read"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, output: str, recordings: list[str], words: str
) -> None:
    """An impossible output is refused with one sentence before anything is transcribed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.wav").write_bytes(b"RIFF")
    for name in ("a.srt", "a.txt"):
        (tmp_path / name).write_text("the work of an hour")
    with pytest.raises(OutputError, match=words) as caught:
        TranscriptOutput(format, output or ".", named(*recordings))
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_sentence() -> None:
    """The message repeats the system's reason."""
    with pytest.raises(OutputError, match="/dev/full cannot be written: No space left"):
        play(TranscriptOutput("text", "/dev/full", named("a.wav")), "a.wav")


def test_an_error_that_is_not_fatal_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An error that is not fatal goes to standard error, not into the transcript."""
    play(
        TranscriptOutput("text", None, named("a.wav")),
        "a.wav",
        events=({"type": "error", "message": "Hm."}, FINAL, DONE),
    )
    assert capsys.readouterr() == ("hello\n", "streamer: a.wav: Hm.\n")


def test_lines_tell_their_channel(capsys: pytest.CaptureFixture[str]) -> None:
    """If channels are separate, each paragraph begins with its channel, counted from 1."""
    play(
        TranscriptOutput("text", None, named("a.wav")),
        "a.wav",
        events=({**FINAL, "channel": 1}, {**FINAL, "channel": 0}, DONE),
    )
    assert capsys.readouterr().out == "[2] hello\n\n[1] hello\n"


def test_recordings_have_their_turns(capsys: pytest.CaptureFixture[str]) -> None:
    """Recordings that are transcribed at the same time are written in the order of the command line."""
    output = TranscriptOutput("text", None, named("a.wav", "b.wav", "c.wav", "d.wav"), headings=False)
    outputs = [output.of_recording(index) for index in range(3)]
    for index in (2, 0, 1):
        outputs[index].begin(None)
        outputs[index].take({**FINAL, "text": f"{index} first"})
    assert capsys.readouterr().out == "0 first"
    with outputs[1]:
        outputs[1].end()
    outputs[0].take({**FINAL, "text": "0 second"})
    assert capsys.readouterr().out == " 0 second"
    with outputs[0]:
        outputs[0].end()
    assert capsys.readouterr().out == "\n1 first\n2 first"
    outputs[2].take({**FINAL, "text": "2 second"})
    assert capsys.readouterr().out == " 2 second"
    with outputs[2], output.of_recording(3) as last:
        last.take(FINAL)
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out == "hello"


def test_several_recordings_in_one_text_have_headings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe and in one file each recording has its name before its text, in its turn, unless nobody wants that."""
    for headings, expected in ((True, "# a.wav\n\nhello\n\n# b.wav\n\nhello\n"), (False, "hello\nhello\n")):
        output = TranscriptOutput("text", None, named("a.wav", "b.wav"), headings=headings)
        second, first = output.of_recording(1), output.of_recording(0)
        for written in (second, first):  # the second one is faster
            with written:
                written.begin(None)
                written.take(FINAL)
                written.end()
        output.close()
        assert capsys.readouterr().out == expected
        path = tmp_path / f"all-{headings}.txt"
        play(TranscriptOutput("text", str(path), named("a.wav", "b.wav"), headings=headings), "a.wav", "b.wav")
        assert path.read_text() == expected
    play(TranscriptOutput("text", str(tmp_path / "a.txt"), named("a.wav")), "a.wav")
    assert (tmp_path / "a.txt").read_text() == "hello\n"


def test_paragraphs_begin_with_their_times(capsys: pytest.CaptureFixture[str]) -> None:
    """With `times`, as the page copies them."""
    late = {**FINAL, "text": "Bye.", "start_ms": 65_000, "end_ms": 66_000}
    output = TranscriptOutput("text", None, named("a.wav"), times=True)
    play(output, "a.wav", events=({**FINAL, "text": "Hello."}, late, DONE))
    assert capsys.readouterr().out == "[0:00.0] Hello.\n\n[1:05.0] Bye.\n"


@pytest.mark.parametrize(
    ("format", "last"),
    [
        ("text", "[stopped at 0:00 of 20:00]"),
        ("srt", "[stopped at 0:00 of 20:00]"),
        ("vtt", "NOTE stopped at 0:00 of 20:00"),
        ("jsonl", '{"type":"stopped","complete":false,"stopped_at_s":0.5,"duration_s":1200.0}'),
    ],
)
def test_every_format_says_where_it_stops(format: str, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is broken off says so in its last line; a word that was cut in two is in none."""
    output = TranscriptOutput(format, None, named("a.wav"))
    words = [{"word": "hello", "start_ms": 0, "end_ms": 500}, {"word": "th", "start_ms": 800, "end_ms": 950}]
    cut = {**FINAL, "text": "hello th", "words": words, "end_ms": 950, "audio_ms": 1000, "cut_ms": 1000}
    with output.of_recording(0) as written:
        written.begin(1_200_000)
        for event in (cut, DONE):
            written.take(event)
        written.break_off()
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == last
    if format != "jsonl":
        assert "hello" in shown
        assert "hello th" not in shown


@pytest.mark.parametrize(
    ("output", "format"),
    [("a.srt", "srt"), ("a.VTT", "vtt"), ("a.txt", "text"), ("a.jsonl", "jsonl"), ("new/", "text"), (None, "text")],
)
def test_the_ending_says_the_format(output: str | None, format: str) -> None:
    """Without --format, a file has the format that its name promises."""
    assert formats_for(None, output) == format
    assert formats_for("json,srt", output) == "json,srt"


@pytest.mark.parametrize("output", ["talk.doc", "talk", "talk.srt.bak"])
def test_an_unknown_ending_is_refused(output: str) -> None:
    """A file whose name promises nothing that is known needs a format."""
    with pytest.raises(OutputError, match=f"{output}: its ending does not say which format it should have"):
        formats_for(None, output)
    assert formats_for("text", output) == "text"
    assert formats_for(None, "/dev/null") == "text"


def test_what_waits_for_its_turn_is_bounded(tmp_path: Path) -> None:
    """No recording begins too far ahead of the one that is being written, unless each has its own file."""
    recordings = named(*(f"{number}.wav" for number in range(MOST_AHEAD + 2)))
    output = TranscriptOutput("text", None, recordings)
    assert output.may_begin(MOST_AHEAD - 1)
    assert not output.may_begin(MOST_AHEAD)
    with output.of_recording(0):
        pass
    assert output.may_begin(MOST_AHEAD)
    assert TranscriptOutput("text", str(tmp_path), recordings).may_begin(MOST_AHEAD + 1)


def test_an_interrupted_recording_keeps_what_is_final(capsys: pytest.CaptureFixture[str]) -> None:
    """After an interruption, a document of the finals so far is written, or none if there are none."""
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
    """Files below a folder keep their subfolders; recordings that differ only in their ending keep it."""
    for name in ("in/talk.wav", "in/talk.mp3", "in/a/talk.wav", "in/a/b/other.ogg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "out").mkdir()
    recordings, _ = list_recordings(f"{tmp_path}/in")
    output = TranscriptOutput("text", f"{tmp_path}/out", recordings)
    assert list((tmp_path / "out").iterdir()) == []  # nothing is created before there is text
    play(output, *(recording.name for recording in recordings))
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.txt")}
    assert written == {"talk.wav.txt", "talk.mp3.txt", "a/talk.txt", "a/b/other.txt"}


def test_two_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    """Two recordings for the same file are refused, and the message names both."""
    with pytest.raises(OutputError, match=r"would both be written to .*/a\.wav\.txt: x/a\.wav and y/a\.wav"):
        TranscriptOutput("text", str(tmp_path), named("x/a.wav", "y/a.wav"))


def test_files_do_not_stay_open(tmp_path: Path) -> None:
    """A thousand recordings do not need a thousand open files."""
    recordings = named(*(f"{number}.wav" for number in range(100)))
    output = TranscriptOutput("text", str(tmp_path), recordings)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for index in range(100):
        with output.of_recording(index) as written:
            written.take(FINAL)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert len(list(tmp_path.iterdir())) == 100


@pytest.mark.parametrize(
    ("format", "recordings", "existing", "words"),
    [
        ("srt", ["a.wav", "b.wav"], "refuse", "srt contains only one recording: give a folder with --output"),
        ("srt,json", ["a.wav"], "refuse", "standard output takes only one format: give a folder with --output"),
        ("text", ["a.wav"], OVERWRITE, "--overwrite needs --output"),
    ],
)
def test_a_stream_cannot_take_everything(format: str, recordings: list[str], existing: str, words: str) -> None:
    """Combinations that make no sense on standard output are refused; with --output they work."""
    with pytest.raises(OutputError, match=words):
        TranscriptOutput(format, None, named(*recordings), existing=existing)


def test_several_formats_are_a_file_each(tmp_path: Path) -> None:
    """Several formats are written in one run, into a new folder."""
    output = TranscriptOutput("srt,json,text", f"{tmp_path}/new/folder", named("a.wav", "b.wav"))
    assert list(tmp_path.iterdir()) == []
    play(output, "a.wav", "b.wav")
    names = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert names == {f"{name}.{ending}" for name in "ab" for ending in ("srt", "json", "txt")}
    assert json.loads((tmp_path / "new" / "folder" / "b.json").read_text())["text"] == "hello"


def test_subtitles_of_several_make_a_folder(tmp_path: Path) -> None:
    """Subtitles of several recordings go into a folder, unless the name looks like a file."""
    play(TranscriptOutput("srt", f"{tmp_path}/subtitles", named("a.wav", "b.wav")), "a.wav", "b.wav")
    assert sorted(path.name for path in (tmp_path / "subtitles").iterdir()) == ["a.srt", "b.srt"]
    play(TranscriptOutput("srt", f"{tmp_path}/one.srt", named("a.wav")), "a.wav")
    assert (tmp_path / "one.srt").read_text().startswith("1\n00:00:00,000")


@pytest.mark.parametrize("format", ["text", "srt"])
def test_what_is_broken_off_is_called_partial(tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str) -> None:
    """An incomplete transcript is called partial and reported; only a complete one replaces an earlier file."""
    ending = {"text": "txt", "srt": "srt"}[format]
    (tmp_path / f"a.{ending}").write_text("finished")
    output = TranscriptOutput(format, str(tmp_path), named("a.wav", "b.wav"), existing=OVERWRITE)
    output.tally.interrupted = True
    for index in range(2):
        with output.of_recording(index) as written:
            written.begin(None)
            written.take(FINAL)
            written.break_off()
    output.close()
    assert (tmp_path / f"a.{ending}").read_text() == "finished"
    assert "hello" in (tmp_path / f"a.partial.{ending}").read_text()
    names = {f"a.{ending}", f"a.partial.{ending}", f"b.partial.{ending}"}
    assert {path.name for path in tmp_path.iterdir()} == names
    told = capsys.readouterr().err
    assert (
        f"streamer: a.wav was not transcribed to its end: the text so far is in {tmp_path}/a.partial.{ending}.\n"
        in told
    )
    assert told.endswith("streamer: 0 of 2 recordings; interrupted.\n")
    play(TranscriptOutput(format, str(tmp_path), named("a.wav", "b.wav"), existing=OVERWRITE), "a.wav", "b.wav")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]
    assert "hello" in (tmp_path / f"a.{ending}").read_text()


def test_a_second_run_goes_on_where_the_first_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Existing files are skipped, even empty ones; of several formats only the missing ones are written."""
    (tmp_path / "a.txt").write_text("by hand")
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.txt").touch()
    recordings = named("a.wav", "b.wav", "c.wav")
    output = TranscriptOutput("text,json", str(tmp_path), recordings, existing=SKIP)
    assert output.recordings == recordings[1:]
    play(output, "b.wav", "c.wav")
    assert capsys.readouterr().err == "streamer: 2 of 3 recordings; 1 already there.\n"
    assert (tmp_path / "a.txt").read_text() == "by hand"
    assert (tmp_path / "b.txt").read_text() == ""
    assert json.loads((tmp_path / "b.json").read_text())["text"] == "hello"
    assert (tmp_path / "c.txt").read_text() == "hello\n"


def test_new_text_goes_behind_the_old(tmp_path: Path) -> None:
    """With --append, text begins on a new line; subtitles are refused, because their times start again."""
    (tmp_path / "a.txt").write_text("old, without an end of line")
    play(TranscriptOutput("text", f"{tmp_path}/a.txt", named("x.wav"), existing=APPEND), "x.wav")
    assert (tmp_path / "a.txt").read_text() == "old, without an end of line\nhello\n"
    with pytest.raises(OutputError, match="--append does not work with srt: its times would start again from zero"):
        TranscriptOutput("srt", f"{tmp_path}/a.srt", named("x.wav"), existing=APPEND)


def test_one_file_of_several_is_not_replaced_by_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If one of several recordings fails, a new file has the others; an old file stays, with the others beside it."""
    for name, replaced in (("new.txt", False), ("old.txt", True)):
        if replaced:
            (tmp_path / name).write_text("two recordings")
        output = TranscriptOutput("text", f"{tmp_path}/{name}", named("a.wav", "b.wav"), existing=OVERWRITE)
        with output.of_recording(1):
            pass
        play(output, "a.wav")
    assert (tmp_path / "new.txt").read_text() == "# a.wav\n\nhello\n"
    assert (tmp_path / "old.txt").read_text() == "two recordings"
    assert (tmp_path / "old.partial.txt").read_text() == "# a.wav\n\nhello\n"
    assert f"the text so far is in {tmp_path}/old.partial.txt." in capsys.readouterr().err


def test_a_file_that_does_not_fit_stops_no_other(tmp_path: Path) -> None:
    """A file that does not fit leaves nothing half-written, and the old one stays."""
    (tmp_path / "a.json").write_text("old")
    output = TranscriptOutput("json", str(tmp_path), named("a.wav", "b.wav"), existing=OVERWRITE)
    with output.of_recording(0) as written, most_bytes(50):
        written.take(FINAL)
        with pytest.raises(OutputError, match=r"a\.json cannot be written: File too large"):
            written.end()
    play(output, "b.wav")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]
    assert (tmp_path / "a.json").read_text() == "old"
    assert (output.tally.done, output.tally.failed) == (1, 1)


def test_lines_that_do_not_fit_leave_whole_lines(tmp_path: Path) -> None:
    """Text from before the disk was full is kept as partial, with whole lines only."""
    output = TranscriptOutput("text", f"{tmp_path}/a.txt", named("a.wav"))
    with output.of_recording(0) as written, most_bytes(10):
        written.take(FINAL)
        with pytest.raises(OutputError, match=r"a\.txt cannot be written"):
            written.take(FINAL)
    output.close()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.partial.txt", "hello")]


def test_of_five_recordings_three_of_which_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """All named recordings are counted, even those that could not be opened or were not tried."""
    output = TranscriptOutput("text", None, named("a.wav", "b.wav", "c.wav"), unreadable=2)
    with output.of_recording(2):
        pass
    play(output, "a.wav", "b.wav")
    assert capsys.readouterr().err == "streamer: 2 of 5 recordings; 3 failed.\n"
