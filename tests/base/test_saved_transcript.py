"""Transcripts that were saved, perhaps edited by hand, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamer.base.saved_transcript import TranscriptError, read_transcripts
from streamer.base.transcript import event_line
from tests.transcript_events import final, word


def saved(**changes: Any) -> dict[str, Any]:
    """A transcript of one segment, as `--format json` writes it."""
    segment = final(word("hello", 100, 500), word("there", 500, 900))
    return {"file": "talk.wav", "text": "hello there", "duration_ms": 1000, "segments": [segment | changes]}


def test_text_that_was_edited_counts() -> None:
    """Where the words are those of an earlier text, the new text is written, within the time of its segment."""
    [transcript] = read_transcripts(json.dumps(saved(text="Hello there, all of you")), "edited.json")
    assert transcript.render("text") == "Hello there, all of you\n"
    assert transcript.render("srt") == "1\n00:00:00,100 --> 00:00:01,453\nHello there, all of you\n"


def test_what_was_not_edited_keeps_the_times_of_its_words() -> None:
    """Words that still are those of the text have their times."""
    [transcript] = read_transcripts(json.dumps(saved()), "edited.json")
    assert [each["start_ms"] for each in transcript.words] == [100, 500]
    assert transcript.file == "talk.wav"
    assert transcript.complete  # as an earlier version has written it


def test_a_line_for_each_recording() -> None:
    """A file for several recordings has a transcript in each line; so has a list."""
    values = [{**saved(), "file": name} for name in ("a.wav", "b.wav")]
    for text in ("\n".join(map(json.dumps, values)), json.dumps(values)):
        assert [each.file for each in read_transcripts(text, "all.json")] == ["a.wav", "b.wav"]


def test_events_are_a_transcript() -> None:
    """The events of jsonl are one recording, which is complete if its last event says so."""
    events = [{"type": "ready"}, final(word("hello", 100, 500)), {"type": "done", "audio_ms": 900}]
    [whole] = read_transcripts("".join(map(event_line, events)), "talk.jsonl")
    assert (whole.file, whole.text, whole.complete, whole.duration_ms) == ("talk.jsonl", "hello", True, 900)
    [part] = read_transcripts("".join(map(event_line, events[:2])), "talk.jsonl")
    assert part.render("text") == "hello\n\n[stopped at 0:00]\n"


@pytest.mark.parametrize("names", ["Ada", {"1": "Ada"}, [3, None], [], None])
def test_names_that_are_none(names: object) -> None:
    """What is no name leaves a channel its number."""
    content = saved(channel=0) | {"channel_names": names}
    [transcript] = read_transcripts(json.dumps(content), "edited.json")
    assert transcript.render("text") == "[1] hello there\n"
    assert "channel_names" not in json.loads(transcript.render("json"))


@pytest.mark.parametrize(("turn", "kept"), [(0.9, True), (1, True), (None, False), (True, False), ("yes", False)])
def test_a_turn_is_a_probability(turn: object, kept: bool) -> None:
    """The end of a turn is kept, for paragraphs; what is no number is not one."""
    [transcript] = read_transcripts(json.dumps(saved(turn=turn)), "edited.json")
    assert ("turn" in transcript.segments[0]) is kept


@pytest.mark.parametrize(("language", "kept"), [("de", True), (None, False), (49, False)])
def test_a_language_is_a_text(language: object, kept: bool) -> None:
    """The language that was heard is kept, and what is no text is none."""
    [transcript] = read_transcripts(json.dumps(saved(language=language)), "edited.json")
    assert ("language" in transcript.segments[0]) is kept
    assert json.loads(transcript.render("json"))["segments"][0].get("language") == (language if kept else None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("{", "is not JSON in line 1"),
        ("[1]", "is not a transcript: it has no 'segments'"),
        ('{"segments":[3]}', "has a segment 1 that is no object"),
        (json.dumps(saved(text=3)), "has no 'text' in segment 1"),
        (json.dumps(saved(start_ms="1")), "has no 'start_ms' in milliseconds in segment 1"),
        (json.dumps(saved(end_ms=50)), "has a time in segment 1 that runs backwards: 100 to 50"),
        (json.dumps(saved(channel=-1)), "has no channel that can be in segment 1"),
        (json.dumps({**saved(), "duration_ms": -1}), "has no 'duration_ms' in milliseconds in the transcript"),
    ],
)
def test_a_mistake_is_a_sentence(text: str, why: str) -> None:
    """What was made wrong by hand is named."""
    with pytest.raises(TranscriptError, match=why.replace("'", ".")):
        read_transcripts(text, "edited.json")
