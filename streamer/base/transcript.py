"""Builds the transcript of a session from its events, and writes it as text, JSON, SRT or WebVTT. Pure.

Words come from a model, perhaps of a stranger. No format has characters that a terminal would obey: JSON escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypedDict, cast

from streamer.base.cues import Cue, SessionEvent, channel_label, make_cues
from streamer.base.text import joined, json_text, printable, printable_lines

FORMATS: Final = ("text", "json", "jsonl", "srt", "vtt")
# These formats can be written while words arrive. Any other format is one document for a whole recording.
LINE_FORMATS: Final = ("text", "jsonl")
SUBTITLES: Final = ("srt", "vtt")

VTT_HEADER: Final = "WEBVTT\n"

_SEGMENT_KEYS: Final = ("start_ms", "end_ms", "text", "confidence", "words")
_OPTIONAL_KEYS: Final = ("channel", "spoken", "alternatives")


class _SpokenWord(TypedDict, total=False):
    spoken: str  # with the written form: the word as it was spoken


class TranscriptWord(_SpokenWord):
    """A word of a transcript."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float


class _SegmentOptions(TypedDict, total=False):
    channel: int  # with channels that are recognised separately
    spoken: str  # with the written form: the text as it was spoken
    alternatives: list[dict[str, object]]  # if the session asked for some


class TranscriptSegment(_SegmentOptions):
    """A final in a transcript."""

    start_ms: int
    end_ms: int
    text: str
    confidence: float
    words: list[TranscriptWord] | None  # None if the session has the option `words` off


class Transcript:
    """The transcript of one recording, built from its events."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.duration_ms = 0
        self._segments: list[TranscriptSegment] = []
        self.complete = False

    def add(self, event: SessionEvent) -> None:
        """Add an event of the session. Text comes from finals only."""
        if event["type"] == "final":
            optional = {key: event[key] for key in _OPTIONAL_KEYS if key in event}
            segment = {key: event.get(key) for key in _SEGMENT_KEYS} | optional
            self._segments.append(cast(TranscriptSegment, segment))
        # Channels are not recognised at the same pace, so the one that is furthest counts.
        self.duration_ms = max(self.duration_ms, event.get("audio_ms", 0))
        self.complete = self.complete or event["type"] == "done"

    @property
    def segments(self) -> list[TranscriptSegment]:
        """The finals in the order in which they were spoken. Those of several channels may arrive in another order."""
        return sorted(self._segments, key=lambda segment: (segment["start_ms"], segment.get("channel", 0)))

    @property
    def words(self) -> list[TranscriptWord]:
        """All words with their times and confidences. Empty if the session has the option `words` off."""
        return [word for segment in self.segments for word in segment["words"] or ()]

    @property
    def text(self) -> str:
        """The whole text as one line."""
        return joined(segment["text"] for segment in self.segments)

    def render(self, format: str) -> str:
        """Return the transcript as json, srt, vtt, or text (a line for each final). Raise ValueError otherwise."""
        if format not in _WRITERS:
            raise ValueError(f"a transcript is written as {', '.join(_WRITERS)}, not as {format!r}")
        return _WRITERS[format](self)


def channel_prefix(event: SessionEvent) -> str:
    """Return the label of an event's channel, such as `[1] `. Empty if there is only one channel."""
    return f"[{event['channel'] + 1}] " if "channel" in event else ""


def text_line(final: SessionEvent) -> str:
    """Return a final as a line of text."""
    return f"{channel_prefix(final)}{printable_lines(final['text'])}\n"


def event_line(event: SessionEvent) -> str:
    """Return an event as a line of jsonl."""
    return json_text(event, separators=(",", ":")) + "\n"


def srt_cue(number: int, cue: Cue) -> str:
    """Return a cue of SRT. Cues are numbered from 1, and an empty line separates them."""
    times = f"{timestamp(cue.start_ms, ',')} --> {timestamp(cue.end_ms, ',')}"
    return f"{number}\n{times}\n{channel_label('[{}] ', cue.channel)}" + "\n".join(map(printable, cue.lines)) + "\n"


def vtt_cue(cue: Cue) -> str:
    """Return a cue of WebVTT. The caller writes an empty line before it."""
    # Imported only when it is needed, because every client imports this module.
    import html

    lines = "\n".join(html.escape(printable(line), quote=False) for line in cue.lines)
    times = f"{timestamp(cue.start_ms, '.')} --> {timestamp(cue.end_ms, '.')}"
    return f"{times}\n{channel_label('<v {}>', cue.channel)}{lines}\n"


def timestamp(milliseconds: int, mark: str) -> str:
    """Return a time such as 00:00:03.200, with this decimal mark."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{mark}{rest:03}"


def short_timestamp(milliseconds: int) -> str:
    """Return a time for people, to a tenth of a second: 0:03.2, or 1:02:03.4 from an hour on."""
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
    return json_text(content) + "\n"


def _srt(transcript: Transcript) -> str:
    return "\n".join(srt_cue(number, cue) for number, cue in enumerate(make_cues(transcript.segments), 1))


def _vtt(transcript: Transcript) -> str:
    return "\n".join([VTT_HEADER, *map(vtt_cue, make_cues(transcript.segments))])


_WRITERS: Final[Mapping[str, Callable[[Transcript], str]]] = {
    "text": _text,
    "json": _json,
    "srt": _srt,
    "vtt": _vtt,
}
