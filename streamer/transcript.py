"""A transcript in every format: collects a session's events, then writes text, JSON, SRT or WebVTT. Pure."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamer.cues import Cue, Event, cues, voice

FORMATS: Final = ("text", "json", "jsonl", "srt", "vtt")
# These can be written while the words come; the others are one document about a whole recording.
LINE_FORMATS: Final = ("text", "jsonl")
SUBTITLES: Final = ("srt", "vtt")

VTT_HEADER: Final = "WEBVTT\n"

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
        # As far as it was heard: channels are not heard at the same pace.
        self.duration_ms = max(self.duration_ms, event.get("audio_ms", 0))
        self.complete = self.complete or event["type"] == "done"

    @property
    def segments(self) -> list[dict[str, Any]]:
        """The finals in the order in which they were spoken: channels are not heard at the same pace."""
        return sorted(self._segments, key=lambda segment: (segment["start_ms"], segment.get("channel", 0)))

    @property
    def words(self) -> list[dict[str, Any]]:
        """All words with their times and confidences; those of a session that leaves words out are none."""
        return [word for segment in self.segments for word in segment["words"] or ()]

    @property
    def text(self) -> str:
        """All words in one line."""
        return " ".join(segment["text"] for segment in self.segments)

    def render(self, format: str) -> str:
        """The transcript as one document (json, srt, vtt) or a line for each final (text)."""
        return _WRITERS[format](self)


def label(event: Event) -> str:
    """What stands before the text of an event, for people: its channel, counted from 1, if there are several."""
    return f"[{event['channel'] + 1}] " if "channel" in event else ""


def text_line(final: Event) -> str:
    """A final as a line of text."""
    return f"{label(final)}{final['text']}\n"


def event_line(event: Event) -> str:
    """An event as a line of jsonl."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n"


def srt_cue(number: int, cue: Cue) -> str:
    """A subtitle of SRT; they count from 1, with an empty line between two."""
    times = f"{clock(cue.start_ms, ',')} --> {clock(cue.end_ms, ',')}"
    return f"{number}\n{times}\n{voice('[{}] ', cue.channel)}" + "\n".join(cue.lines) + "\n"


def vtt_cue(cue: Cue) -> str:
    """A subtitle of WebVTT, with an empty line before it."""
    lines = "\n".join(html.escape(line, quote=False) for line in cue.lines)
    return f"{clock(cue.start_ms, '.')} --> {clock(cue.end_ms, '.')}\n{voice('<v {}>', cue.channel)}{lines}\n"


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
    return "\n".join(srt_cue(number, cue) for number, cue in enumerate(cues(transcript.segments), 1))


def _vtt(transcript: Transcript) -> str:
    return "\n".join([VTT_HEADER, *map(vtt_cue, cues(transcript.segments))])


_WRITERS: Final[Mapping[str, Callable[[Transcript], str]]] = {
    "text": _text,
    "json": _json,
    "srt": _srt,
    "vtt": _vtt,
}
