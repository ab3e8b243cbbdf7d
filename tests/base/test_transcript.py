"""Transcripts from events, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.base.saved_transcript import read_transcripts
from streamer.base.text import printable_lines
from streamer.base.transcript import TextWriter, Transcript, event_line, short_timestamp, stop_text, timestamp
from tests.transcript_events import final, word


@pytest.fixture
def transcript() -> Transcript:
    """Two segments, with all the events around them."""
    result = Transcript("talk.wav")
    for event in (
        {"type": "ready", "n": 0},
        {"type": "partial", "n": 1, "text": "it's a", "stable": 0, "segment": 0},
        final(word("it's", 3200, 3400), word("late", 3400, 3900)),
        final(word("r&d", 5000, 5400), word("<now>", 5400, 6200), segment=1),
        {"type": "done", "n": 9, "audio_ms": 7000},
    ):
        result.add(event)
    return result


CASES = json.loads(Path(__file__).with_name("transcript_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_format_of_the_cases(case: dict[str, Any]) -> None:
    """A saved transcript gives each format as the cases have it, and itself again. The page is held to the same."""
    [transcript] = read_transcripts(json.dumps(case["json"]), "case.json")
    written = {format: transcript.render(format) for format in ("text", "srt", "vtt")}
    assert written == {format: case[format] for format in written}
    assert json.loads(transcript.render("json")) == case["json"]
    writer = TextWriter(times=True, names=transcript.channel_names)
    timed = "".join(map(writer.add, transcript.segments)) + writer.end(stop_text(transcript))
    assert timed == case["times"]


def test_text_is_paragraphs(transcript: Transcript) -> None:
    """Partials leave no trace; finals are joined to one paragraph."""
    assert transcript.render("text") == "it's late r&d <now>\n"


def cut_off(*words: dict[str, Any], audio_ms: int, **more: Any) -> dict[str, Any]:
    """A final that ends where the audio ends, and not at a pause."""
    return {**final(*words), "audio_ms": audio_ms, "cut_ms": audio_ms, **more}


def test_a_word_that_was_cut_in_two_is_dropped() -> None:
    """The last word before the audio broke off is not known. What was said before it stays, written and spoken."""
    broken = Transcript("a.wav")
    broken.recording_ms = 1_200_000
    said = [{**word("Good", 0, 400), "spoken": "good"}, {**word("Mo", 500, 900), "spoken": "mo"}]
    broken.add(cut_off(*said, audio_ms=1000, spoken="good mo", alternatives=[{"text": "Good Mo"}]))
    broken.add({"type": "done", "audio_ms": 1000})
    broken.break_off()
    content = json.loads(broken.render("json"))
    assert [content[name] for name in ("text", "complete", "stopped_at_s", "duration_s")] == ["Good", False, 0.4, 1200]
    [segment] = content["segments"]
    assert (segment["spoken"], segment["end_ms"], len(segment["words"])) == ("good", 400, 1)
    assert "alternatives" not in segment
    assert broken.render("text") == "Good\n\n[stopped at 0:00 of 20:00]\n"


@pytest.mark.parametrize("more", [{"turn": 0.9}, {"cut_ms": 950}, {"audio_ms": 1200, "cut_ms": 1200}])
def test_a_word_before_a_pause_is_whole(more: dict[str, Any]) -> None:
    """A segment that ended at a pause, at a turn or at its greatest length keeps its last word."""
    broken = Transcript("a.wav")
    broken.add(cut_off(word("good", 0, 400), word("morning", 500, 900), **{"audio_ms": 1000, **more}))
    broken.break_off()
    assert broken.text == "good morning"


def test_a_segment_of_one_cut_word_is_dropped() -> None:
    """Nothing is left of a segment whose only word was cut; words without times are dropped by their length."""
    broken = Transcript("a.wav")
    broken.add({**cut_off(word("a", 0, 400), audio_ms=400), "words": None})
    broken.break_off()
    assert broken.segments == []
    assert broken.stopped_ms == 0


def test_an_unknown_format_is_refused(transcript: Transcript) -> None:
    """The error names the formats that exist."""
    with pytest.raises(ValueError, match="a transcript is written as text, json, srt, vtt, html, not as 'odt'"):
        transcript.render("odt")


def test_json_is_one_object_in_one_line(transcript: Transcript) -> None:
    """The object has exactly the documented keys."""
    rendered = transcript.render("json")
    assert rendered.count("\n") == 1
    content = json.loads(rendered)
    assert list(content) == ["file", "text", "duration_ms", "complete", "segments"]
    assert content["file"] == "talk.wav"
    assert content["text"] == "it's late r&d <now>"
    assert content["duration_ms"] == 7000
    assert content["segments"][0] == {
        "start_ms": 3200,
        "end_ms": 3900,
        "text": "it's late",
        "confidence": 0.87,
        "words": [word("it's", 3200, 3400), word("late", 3400, 3900)],
    }


def test_jsonl_keeps_the_event() -> None:
    """An event is one line that reads back as the same event."""
    event = {"type": "final", "text": "naïve\n", "n": 3}
    assert event_line(event).count("\n") == 1
    assert json.loads(event_line(event)) == event


def test_srt_counts_cues_and_writes_commas(transcript: Transcript) -> None:
    """SubRip: numbers from 1, decimal commas, an empty line between cues."""
    assert transcript.render("srt") == (
        "1\n00:00:03,200 --> 00:00:04,200\nit's late\n\n2\n00:00:05,000 --> 00:00:06,200\nr&d <now>\n"
    )


def test_vtt_has_a_header_and_escapes(transcript: Transcript) -> None:
    """WebVTT: the header, decimal points, and no character that would be read as markup."""
    assert transcript.render("vtt") == (
        "WEBVTT\n\n00:00:03.200 --> 00:00:04.200\nit's late\n\n00:00:05.000 --> 00:00:06.200\nr&amp;d &lt;now&gt;\n"
    )


def test_silence_is_an_empty_transcript() -> None:
    """A recording without words gives valid documents without cues or lines."""
    silent = Transcript("-")
    silent.add({"type": "done", "audio_ms": 1000})
    assert [silent.render(format) for format in ("text", "srt", "vtt")] == ["", "", "WEBVTT\n"]
    assert json.loads(silent.render("json")) == {
        "file": "-",
        "text": "",
        "duration_ms": 1000,
        "complete": True,
        "segments": [],
    }


def test_a_transcript_is_complete_with_done() -> None:
    """Finals alone do not make a whole transcript."""
    broken = Transcript("a.wav")
    broken.add({**final(word("a", 0, 10)), "audio_ms": 20})
    assert not broken.complete
    assert broken.duration_ms == 20
    broken.add({"type": "done", "audio_ms": 30})
    assert broken.complete
    assert broken.duration_ms == 30


@pytest.mark.parametrize(
    ("milliseconds", "long", "short"),
    [
        (0, "00:00:00.000", "0:00.0"),
        (3_249, "00:00:03.249", "0:03.2"),
        (59_999, "00:00:59.999", "0:59.9"),
        (3_723_456, "01:02:03.456", "1:02:03.4"),
    ],
)
def test_times(milliseconds: int, long: str, short: str) -> None:
    """Times are cut, not rounded up, and hours appear when there are any."""
    assert timestamp(milliseconds, ".") == long
    assert short_timestamp(milliseconds) == short


def of_channel(channel: int, event: dict[str, Any]) -> dict[str, Any]:
    """The same final in one of several channels."""
    return {**event, "channel": channel}


@pytest.fixture
def call() -> Transcript:
    """Two speakers who interrupt each other. The second channel arrived first."""
    result = Transcript("call.wav")
    for event in (
        of_channel(1, final(word("fine", 1500, 1900), word("thanks", 1900, 2400))),
        of_channel(0, final(word("how", 1000, 1200), word("are", 1200, 1600), word("you", 1600, 2000))),
        of_channel(1, final(word("bye", 6000, 6400), segment=1)),
        {"type": "done", "n": 9, "audio_ms": 7000},
    ):
        result.add(event)
    return result


def test_channels_are_told_in_text(call: Transcript) -> None:
    """Paragraphs are in the order of their starts, each with its channel, counted from 1."""
    assert call.render("text") == "[1] how are you\n\n[2] fine thanks bye\n"


def test_channels_are_told_in_json(call: Transcript) -> None:
    """Segments have the channel of the protocol, which counts from 0."""
    content = json.loads(call.render("json"))
    assert [(segment["channel"], segment["start_ms"]) for segment in content["segments"]] == [
        (0, 1000),
        (1, 1500),
        (1, 6000),
    ]
    assert content["text"] == "how are you fine thanks bye"


def test_channels_are_told_in_subtitles(call: Transcript) -> None:
    """Cues of one channel follow each other; those of two channels may overlap."""
    assert call.render("srt") == (
        "1\n00:00:01,000 --> 00:00:02,000\n[1] how are you\n\n"
        "2\n00:00:01,500 --> 00:00:02,500\n[2] fine thanks\n\n"
        "3\n00:00:06,000 --> 00:00:07,000\n[2] bye\n"
    )
    assert call.render("vtt").splitlines()[2:6] == [
        "00:00:01.000 --> 00:00:02.000",
        "<v 1>how are you",
        "",
        "00:00:01.500 --> 00:00:02.500",
    ]


def test_what_was_asked_for_is_in_json() -> None:
    """The spoken form, the alternatives and the language are in a segment if the service gave them."""
    result = Transcript("a.wav")
    extra = {"spoken": "a", "alternatives": [{"text": "a", "confidence": 0.8}, {"text": "the", "confidence": 0.1}]}
    extra["language"] = "en"
    result.add({**final(word("A", 0, 10)), **extra})
    [segment] = json.loads(result.render("json"))["segments"]
    assert {key: segment[key] for key in extra} == extra


def test_a_second_look_is_at_its_own_session() -> None:
    """After the service has begun the session again, a second look leaves the speakers from before as they were."""
    result = Transcript("a.wav")
    result.add({**final({**word("a", 0, 300), "speaker": 1}), "speaker": 1})
    result.add({"type": "restarted", "from_ms": 2000, "segment": 1})
    result.add({**final({**word("b", 2100, 2400), "speaker": 0}), "speaker": 0})
    result.add({"type": "speakers", "turns": [{"start_ms": 2000, "end_ms": 3000, "speaker": 2}]})
    assert [segment["speaker"] for segment in result.segments] == [1, 2]


def test_two_speakers_become_one() -> None:
    """All words so far of a speaker who turns out to be another one are of that one, in the same channel."""
    events: list[dict[str, Any]] = [
        {**final({**word(str(at), 300 * at, 300 * at + 300), "speaker": at}), "speaker": at, **channel}
        for at, channel in enumerate(({"channel": 0}, {"channel": 1}, {"channel": 0}, {"channel": 1}))
    ]
    events += [{"type": "speaker_merge", "speaker": each, "into": 0, "channel": 0} for each in (2, 3)]
    result = Transcript("a.wav")
    for event in events:
        result.add(event)
    assert [segment["speaker"] for segment in result.segments] == [0, 1, 0, 3]
    assert [word["speaker"] for word in result.words] == [0, 1, 0, 3]
    [saved] = read_transcripts("\n".join(map(event_line, events)), "a.jsonl")
    assert saved.segments == result.segments


@pytest.mark.parametrize("text", ["a\x1b]52;c;Yg==\x07", "\x9b2J", "\u202eb\u2066", "c\r\u2028d"])
def test_no_format_steers_a_terminal(text: str) -> None:
    """Words with control characters or marks of direction lose them, and JSON escapes them."""
    result = Transcript(text)
    event = final(word(text, 0, 400))
    result.add(event)
    result.add({"type": "done", "audio_ms": 400})
    for written in (*map(result.render, ("text", "json", "srt", "vtt")), event_line(event)):
        assert printable_lines(written) == written
    assert json.loads(result.render("json"))["segments"][0]["text"] == text
    assert json.loads(event_line(event)) == event


def test_a_word_cannot_begin_a_cue() -> None:
    """Line breaks in a word do not end its cue: otherwise what follows would be another one."""
    result = Transcript("a.wav")
    result.add({"type": "done", "audio_ms": 400})
    result.add(final(word("a\n\n2\n00:00:01,000 --> 00:00:02,000\nb", 0, 400)))
    assert [line for line in result.render("srt").splitlines() if not line] == []
    assert result.render("vtt").count(" --> ") == 1


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_text_is_the_same_live_and_later(case: dict[str, Any]) -> None:
    """Finals as they come from a service give the text that their JSON gives later."""
    names = case["json"].get("channel_names", ())
    live, transcript = TextWriter(names=names), Transcript("talk.wav")
    text = ""
    for segment in case["json"]["segments"]:
        event = {"type": "final", "n": 7, "segment": 0, "audio_ms": segment["end_ms"], **segment}
        text += live.add(event)
        transcript.add(event)
    [later] = read_transcripts(transcript.render("json"), "talk.json")
    assert "".join(map(TextWriter(names=names).add, later.segments)) == text
