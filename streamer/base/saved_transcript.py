"""Reads transcripts that were saved as JSON, perhaps edited by hand since, to write them in another format. Pure.

What a hand may have changed is checked, and a mistake is a sentence. If the words of a segment are not those of its
text any more, the text counts, and its length decides the times of its words.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from streamer.base.json_types import JsonObject
from streamer.base.text import joined
from streamer.base.transcript import Transcript, TranscriptSegment

ENDINGS: Final = (".json", ".jsonl")
_MOST_MS: Final = 10**10  # about four months
_MOST_CHANNELS: Final = 100
_LONGEST_NAME: Final = 200
_NUMBERED: Final = ("channel", "speaker")


class TranscriptError(Exception):
    """A file is no transcript that was saved. The message says why, as the rest of a sentence about the file."""


def read_transcripts(text: str, name: str) -> list[Transcript]:
    """Return the transcripts in the text of a file: one object, one for each line, or the events of one recording.

    `name`: the file of a transcript that does not say which recording it is of.
    """
    try:
        values = [json.loads(text)]
    except ValueError:
        values = _lines(text)
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    if values and all(isinstance(value, dict) and isinstance(value.get("type"), str) for value in values):
        return [_of_events(values, name)]
    transcripts = [_of_object(value, name) for value in values]
    if not transcripts:
        raise TranscriptError("is empty")
    return transcripts


def _lines(text: str) -> list[Any]:
    values = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.strip():
                values.append(json.loads(line))
        except (ValueError, RecursionError):
            raise TranscriptError(f"is not JSON in line {number}") from None
    return values


def _of_events(events: list[JsonObject], name: str) -> Transcript:
    transcript = Transcript(name)
    for event in events:
        if event["type"] == "final":
            transcript.add(_final(event, "a final"))
        elif event["type"] == "speakers":
            transcript.add({"type": "speakers", "turns": _turns(event), "channel": event.get("channel")})
        elif event["type"] == "speaker_merge":
            for name in ("speaker", "into"):
                _check_number(event, name, "the event speaker_merge")
            transcript.add(event)
        elif event["type"] == "restarted":
            transcript.add({**event, "from_ms": _time(event, "from_ms", "the event restarted")})
        elif event["type"] == "done":
            transcript.add({"type": "done", "audio_ms": _time(event, "audio_ms", "the event done")})
    return transcript


def _of_object(value: Any, name: str) -> Transcript:
    if not isinstance(value, dict) or not isinstance(value.get("segments"), list):
        raise TranscriptError("is not a transcript: it has no 'segments' (streamer --format json writes them)")
    file = value.get("file")
    transcript = Transcript(file if isinstance(file, str) and file else name)
    for number, segment in enumerate(value["segments"], 1):
        if not isinstance(segment, dict):
            raise TranscriptError(f"has a segment {number} that is no object")
        transcript.add(_final(segment, f"segment {number}"))
    # Transcripts of earlier versions do not say whether they are complete.
    transcript.complete = value.get("complete") is not False
    if "duration_ms" in value:
        transcript.duration_ms = _time(value, "duration_ms", "the transcript")
    duration_s = value.get("duration_s")
    if isinstance(duration_s, (int, float)) and 0 <= duration_s * 1000 <= _MOST_MS:
        transcript.recording_ms = round(duration_s * 1000)
    transcript.channel_names, transcript.speaker_names = (_names(value.get(f"{each}_names")) for each in _NUMBERED)
    return transcript


def _names(value: object) -> list[str]:
    names = value[:_MOST_CHANNELS] if isinstance(value, list) else []
    return [name[:_LONGEST_NAME] if isinstance(name, str) else "" for name in names]


def _final(value: JsonObject, what: str) -> JsonObject:
    """Return a segment as a final, checked."""
    final = {**value, "type": "final", **_segment(value, what)}
    turn = value.get("turn")
    if not isinstance(turn, (int, float)) or isinstance(turn, bool):
        final.pop("turn", None)
    if not isinstance(value.get("language"), str):
        final.pop("language", None)
    return final


def _turns(event: JsonObject) -> list[JsonObject]:
    turns = event.get("turns")
    what = "the event speakers"
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise TranscriptError(f"has no 'turns' in {what}")
    for turn in turns:
        _check_number(turn, "speaker", what)
    return [{**turn, **{name: _time(turn, name, what) for name in ("start_ms", "end_ms")}} for turn in turns]


def _check_number(value: JsonObject, name: str, what: str) -> None:
    number = value.get(name)
    if type(number) is not int or not 0 <= number < _MOST_CHANNELS:
        raise TranscriptError(f"has no {name} that can be in {what}")


def _segment(value: JsonObject, what: str) -> TranscriptSegment:
    """Return the fields of a segment that a writer needs, checked."""
    text, words = value.get("text"), value.get("words")
    if not isinstance(text, str):
        raise TranscriptError(f"has no 'text' in {what}")
    start_ms, end_ms = (_time(value, name, what) for name in ("start_ms", "end_ms"))
    if end_ms < start_ms:
        raise TranscriptError(f"has a time in {what} that runs backwards: {start_ms} to {end_ms}")
    for each in _NUMBERED:
        if value.get(each) is not None:
            _check_number(value, each, what)
    segment: JsonObject = {"start_ms": start_ms, "end_ms": end_ms, "text": text, "confidence": value.get("confidence")}
    segment["words"] = words if _fits(words, text) else None
    return cast(TranscriptSegment, segment)


def _fits(words: object, text: str) -> bool:
    """Return whether these are the words of the text, with times."""
    if not isinstance(words, list) or not words:
        return False
    for word in words:
        if not isinstance(word, dict) or not isinstance(word.get("word"), str):
            return False
        if not all(type(word.get(name)) is int and 0 <= word[name] <= _MOST_MS for name in ("start_ms", "end_ms")):
            return False
        if type(word.get("speaker", 0)) is not int or not 0 <= word.get("speaker", 0) < _MOST_CHANNELS:
            return False
    return joined(word["word"] for word in words).split() == text.split()


def _time(value: JsonObject, name: str, what: str) -> int:
    time = value.get(name)
    if not isinstance(time, (int, float)) or isinstance(time, bool) or not 0 <= time <= _MOST_MS:
        raise TranscriptError(f"has no '{name}' in milliseconds in {what}")
    return round(time)
