"""A transcript in every format: collects a session's events, then writes text, JSON, SRT or WebVTT. Pure."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

Event = Mapping[str, Any]

FORMATS: Final = ("text", "json", "jsonl", "srt", "vtt")
# These can be written while the words come; the others are one document about a whole recording.
LINE_FORMATS: Final = ("text", "jsonl")
SUBTITLES: Final = ("srt", "vtt")

LINE_CHARACTERS: Final = 42
CUE_LINES: Final = 2
LONGEST_CUE_MS: Final = 7_000
SHORTEST_CUE_MS: Final = 1_000
PAUSE_MS: Final = 1_500  # a pause between two words that a cue does not bridge

_SEGMENT_KEYS: Final = ("start_ms", "end_ms", "text", "confidence", "words")
_ASKED_FOR_KEYS: Final = ("channel", "spoken", "alternatives")


class Transcript:
    """What was said in one recording, final by final."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.duration_ms = 0
        self._segments: list[dict[str, Any]] = []
        self.complete = False

    def add(self, event: Event) -> None:
        """Takes an event of the protocol; what is not final changes nothing."""
        if event["type"] == "final":
            asked_for = {key: event[key] for key in _ASKED_FOR_KEYS if key in event}
            self._segments.append({key: event.get(key) for key in _SEGMENT_KEYS} | asked_for)
        elif event["type"] == "done":
            self.duration_ms = event["audio_ms"]
            self.complete = True

    @property
    def segments(self) -> list[dict[str, Any]]:
        """The finals in the order in which they were spoken: channels are not heard at the same pace."""
        return sorted(self._segments, key=lambda segment: (segment["start_ms"], segment.get("channel", 0)))

    @property
    def text(self) -> str:
        """All words in one line."""
        return " ".join(segment["text"] for segment in self.segments)

    def render(self, format: str) -> str:
        """The transcript as one document (json, srt, vtt) or a line for each final (text)."""
        return _WRITERS[format](self)


@dataclass(frozen=True)
class Cue:
    """One subtitle: its time and its one or two lines, and the channel if there are several."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    channel: int | None = None


def label(event: Event) -> str:
    """What stands before the text of an event, for people: its channel, counted from 1, if there are several."""
    return f"[{event['channel'] + 1}] " if "channel" in event else ""


def text_line(final: Event) -> str:
    """A final as a line of text."""
    return f"{label(final)}{final['text']}\n"


def event_line(event: Event) -> str:
    """An event as a line of jsonl."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n"


def cues(segments: Sequence[Event]) -> list[Cue]:
    """Subtitles for these segments: words never leave their time, cues of a channel never overlap and are readable."""
    spoken: dict[int | None, list[Event]] = {}
    for segment in segments:
        spoken.setdefault(segment.get("channel"), []).append(segment)
    found = [cue for channel, said in spoken.items() for cue in _cues_of_one(said, channel)]
    return sorted(found, key=lambda cue: (cue.start_ms, cue.channel or 0))


def clock(milliseconds: int, mark: str) -> str:
    """A time as 00:00:03.200, with this decimal mark."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{mark}{rest:03}"


def short_clock(milliseconds: int) -> str:
    """A time for people, to the tenth: 0:03.2, and 1:02:03.4 from an hour on."""
    tenths = milliseconds // 100
    seconds, tenth = divmod(tenths, 10)
    hours = f"{seconds // 3600}:{seconds // 60 % 60:02}" if seconds >= 3600 else f"{seconds // 60}"
    return f"{hours}:{seconds % 60:02}.{tenth}"


def _cues_of_one(segments: Sequence[Event], channel: int | None) -> list[Cue]:
    groups = [group for segment in segments for group in _groups(_timed_words(segment))]
    result = []
    for group, following in zip_longest(groups, groups[1:]):
        start, end = group[0]["start_ms"], max(group[-1]["end_ms"], group[0]["start_ms"] + SHORTEST_CUE_MS)
        if following:
            end = max(start, min(end, following[0]["start_ms"]))
        result.append(Cue(start, end, tuple(_lines(group)), channel))
    return result


def _groups(words: Sequence[Event]) -> list[list[Event]]:
    """The words of a segment, divided into what fits one cue."""
    groups: list[list[Event]] = []
    for word in words:
        if groups and _belongs(word, groups[-1]):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _belongs(word: Event, group: Sequence[Event]) -> bool:
    if word["start_ms"] - group[-1]["end_ms"] > PAUSE_MS:
        return False
    if word["end_ms"] - group[0]["start_ms"] > LONGEST_CUE_MS:
        return False
    return len(_lines([*group, word])) <= CUE_LINES


def _lines(words: Sequence[Event]) -> list[str]:
    return textwrap.wrap(" ".join(word["word"] for word in words), LINE_CHARACTERS, break_on_hyphens=False)


def _timed_words(segment: Event) -> Sequence[Event]:
    """The words with their times; where a session left them out, the segment's time is shared by length."""
    if segment.get("words"):
        words: Sequence[Event] = segment["words"]
        return words
    pieces = segment["text"].split()
    scale = (segment["end_ms"] - segment["start_ms"]) / max(1, sum(map(len, pieces)))
    timed = []
    passed = 0
    for piece in pieces:
        start = segment["start_ms"] + round(passed * scale)
        passed += len(piece)
        timed.append({"word": piece, "start_ms": start, "end_ms": segment["start_ms"] + round(passed * scale)})
    return timed


def _text(transcript: Transcript) -> str:
    return "".join(text_line(segment) for segment in transcript.segments)


def _json(transcript: Transcript) -> str:
    content = {
        "file": transcript.file,
        "text": transcript.text,
        "duration_ms": transcript.duration_ms,
        "segments": transcript.segments,
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def _srt(transcript: Transcript) -> str:
    blocks = [
        f"{number}\n{clock(cue.start_ms, ',')} --> {clock(cue.end_ms, ',')}\n{_voice('[{}] ', cue)}"
        + "\n".join(cue.lines)
        + "\n"
        for number, cue in enumerate(cues(transcript.segments), 1)
    ]
    return "\n".join(blocks)


def _vtt(transcript: Transcript) -> str:
    blocks = ["WEBVTT\n"]
    for cue in cues(transcript.segments):
        lines = "\n".join(html.escape(line, quote=False) for line in cue.lines)
        voice = _voice("<v {}>", cue)
        blocks.append(f"{clock(cue.start_ms, '.')} --> {clock(cue.end_ms, '.')}\n{voice}{lines}\n")
    return "\n".join(blocks)


def _voice(form: str, cue: Cue) -> str:
    return "" if cue.channel is None else form.format(cue.channel + 1)


_WRITERS: Final[Mapping[str, Callable[[Transcript], str]]] = {
    "text": _text,
    "json": _json,
    "srt": _srt,
    "vtt": _vtt,
}
