"""What a later command finds of an unfinished transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.audio.recordings import ListedRecording
from streamer.commands.terminal.journal import Journal, identity_of, journal_options
from streamer.commands.terminal.transcript_files import OVERWRITE
from streamer.commands.terminal.transcript_output import OutputError, TranscriptOutput

TALK: dict[str, object] = {"bytes": 3, "sha256": "abc"}
OPTIONS: dict[str, object] = {"written": True}
READY = {"type": "ready", "triton_model": "one"}


def final(text: str, end_ms: int) -> dict[str, Any]:
    """A final that ended at a pause."""
    times = {"start_ms": end_ms - 500, "end_ms": end_ms, "audio_ms": end_ms + 1000, "cut_ms": end_ms + 900}
    context = {"begins": True, "words": []}
    return {"type": "final", "text": text, "confidence": 1.0, "words": None, **times, "context": context}


def test_a_journal_is_read_again(tmp_path: Path) -> None:
    """Finals come back as they were, with what another session needs."""
    journal = Journal(tmp_path / "talk.partial.journal")
    journal.begin("talk.wav", TALK, OPTIONS, "one", alone=True)
    journal.add("talk.wav", final("hello", 1000))
    journal.close()
    again = Journal(journal.path)
    [beginning] = again.beginnings.values()
    assert (beginning.recording, beginning.options, beginning.model) == (TALK, OPTIONS, "one")
    assert beginning.finals == [final("hello", 1000)]
    assert not beginning.done
    again.finish("talk.wav", 5000)
    again.close()
    assert Journal(journal.path).beginnings["talk.wav"].audio_ms == 5000


def test_a_journal_without_words_is_no_file(tmp_path: Path) -> None:
    """What is not worth continuing leaves nothing behind."""
    journal = Journal(tmp_path / "talk.partial.journal")
    journal.begin("talk.wav", TALK, OPTIONS, "one", alone=True)
    journal.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "torn", [b'{"name":"talk.wav","final":{"type"', b"\0\0\0\0\n", b'{"name":"other","final":{}}\n']
)
def test_what_was_not_written_to_its_end_does_not_count(tmp_path: Path, torn: bytes) -> None:
    """After a power cut the lines before count, and the next ones take the place of the torn one."""
    journal = Journal(tmp_path / "talk.partial.journal")
    journal.begin("talk.wav", TALK, OPTIONS, "one", alone=True)
    journal.add("talk.wav", final("hello", 1000))
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes() + torn)
    again = Journal(journal.path)
    again.add("talk.wav", final("there", 3000))
    again.close()
    finals = Journal(journal.path).beginnings["talk.wav"].finals
    assert [each["text"] for each in finals] == ["hello", "there"]


def test_a_recording_is_known_by_its_content(tmp_path: Path) -> None:
    """Neither its name nor its date tells a recording; its length, beginning and end do."""
    contents = [b"a" * 3_000_000, b"a" * 3_000_001, b"b" + b"a" * 2_999_999, b"a" * 2_999_999 + b"b"]
    for number, content in enumerate([*contents, contents[0]]):
        (tmp_path / f"{number}").write_bytes(content)
    first, *others, copy = [identity_of(str(tmp_path / f"{number}")) for number in range(5)]
    assert first == copy
    assert first not in others


def test_options_that_decide_about_words() -> None:
    """Partials do not; channels do."""
    mixed = journal_options({"written": True, "partials": True}, channels="mix")
    assert mixed == journal_options({"written": True, "partials": False}, channels="mix")
    assert mixed != journal_options({"written": True}, channels="separate")
    assert mixed != journal_options({"written": False}, channels="mix")


def begun(folder: Path, name: str = "talk.wav", **more: Any) -> TranscriptOutput:
    """The output of a command for one recording."""
    return TranscriptOutput("srt,text", str(folder), [ListedRecording.of_name(name)], **more)


def interrupt(folder: Path) -> None:
    """Transcribe until the first final, and then break off."""
    output = begun(folder)
    with output.of_recording(0) as written:
        written.begin(10_000)
        assert not written.continue_from(TALK, OPTIONS)
        assert written.after == []
        written.take(READY)
        written.take(final("hello", 1000))
        written.break_off()
    output.close()


def test_a_transcript_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The next command continues behind the finals, and leaves nothing but the transcript."""
    interrupt(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "talk.partial.journal",
        "talk.partial.srt",
        "talk.partial.txt",
    ]
    assert (tmp_path / "talk.partial.txt").read_text() == "hello\n\n[stopped at 0:01 of 0:10]\n"
    output = begun(tmp_path, "copy/talk.wav")
    with output.of_recording(0) as written:
        written.begin(10_000)
        assert not written.continue_from(TALK, OPTIONS)
        assert written.after == [final("hello", 1000)]
        assert written.continues("one")
        written.take(READY)
        written.take(final("there", 3000))
        written.take({"type": "done", "audio_ms": 10_000})
        written.end()
    output.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.srt", "talk.txt"]
    assert (tmp_path / "talk.txt").read_text() == "hello there\n"


def test_a_final_that_was_cut_in_a_word_is_no_place_to_go_on(tmp_path: Path) -> None:
    """A service that fails ends its segments anywhere. The next command recognises the last one again."""
    output = begun(tmp_path)
    with output.of_recording(0) as written:
        written.begin(10_000)
        written.continue_from(TALK, OPTIONS)
        for event in (READY, final("hello", 1000), {**final("th", 3000), "audio_ms": 3100, "cut_ms": 3100}):
            written.take(event)
        written.break_off()
    output.close()
    [beginning] = Journal(tmp_path / "talk.partial.journal").beginnings.values()
    assert [each["text"] for each in beginning.finals] == ["hello"]
    assert "th" not in (tmp_path / "talk.partial.txt").read_text().split()


@pytest.mark.parametrize(
    ("recording", "options", "why"),
    [({**TALK, "bytes": 4}, OPTIONS, "it is of another recording"), (TALK, {"written": False}, "it has other options")],
)
def test_what_does_not_belong_together_is_not_mixed(
    tmp_path: Path, recording: dict[str, object], options: dict[str, object], why: str
) -> None:
    """The unfinished transcript of another recording, or with other options, is neither continued nor lost."""
    interrupt(tmp_path)
    output = begun(tmp_path)
    with output.of_recording(0) as written:
        written.begin(None)
        with pytest.raises(OutputError, match=f"talk.partial.srt is an unfinished transcript .*: {why}. --overwrite"):
            written.continue_from(recording, options)
    output = begun(tmp_path, existing=OVERWRITE)
    with output.of_recording(0) as written:
        written.begin(None)
        assert not written.continue_from(recording, options)
        assert written.after == []
        written.take(READY)
        written.take(final("other", 1000))
        written.break_off()
    output.close()
    assert "hello" not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_another_model_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The words of two models are not mixed; the user is told."""
    interrupt(tmp_path)
    output = begun(tmp_path)
    with output.of_recording(0) as written:
        written.begin(None)
        written.continue_from(TALK, OPTIONS)
        assert not written.continues("two")
        assert written.after == []
        assert written.continues("two")
    assert "talk.wav begins anew, because the service has another model now" in capsys.readouterr().err


def test_a_recording_that_was_done_is_not_recognised_again(tmp_path: Path) -> None:
    """In a file for several recordings, those that were done are written from the journal."""
    recordings = [ListedRecording.of_name(name) for name in ("a.wav", "b.wav")]
    output = TranscriptOutput("text", str(tmp_path / "all.txt"), recordings)
    output.tally.interrupted = True
    with output.of_recording(0) as written:
        written.begin(None)
        written.continue_from(TALK, OPTIONS)
        for event in (READY, final("hello", 1000), {"type": "done", "audio_ms": 2000}):
            written.take(event)
        written.end()
    output.close()
    output = TranscriptOutput("text", str(tmp_path / "all.txt"), recordings)
    for index in range(2):
        with output.of_recording(index) as written:
            written.begin(None)
            if written.continue_from(TALK if index == 0 else {"bytes": 9}, OPTIONS):
                written.repeat()
                continue
            for event in (READY, final("there", 1000), {"type": "done", "audio_ms": 2000}):
                written.take(event)
            written.end()
    output.close()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "all.txt": "# a.wav\n\nhello\n\n# b.wav\n\nthere\n"
    }
