"""Builds the transcript of a session from its events, and writes it as text, JSON, SRT, WebVTT or HTML. Pure.

A transcript knows whether it is whole, and every format says where it stops if it is not.
`docs/reference/transcript.md` describes the formats.

Words come from a model, perhaps of a stranger. No format has characters that a terminal would obey: JSON escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypedDict, cast

from streamer.base.cues import Cue, SessionEvent, make_cues, timed_words, voice_label, voice_name
from streamer.base.paragraphs import ParagraphRule
from streamer.base.speakers import TimedTurn, with_merge, with_turns
from streamer.base.text import joined, json_text, printable, printable_lines, separator

if TYPE_CHECKING:
    from streamer.base.reading_page import Sound

FORMATS: Final = ("text", "json", "jsonl", "srt", "vtt", "html")
SUBTITLES: Final = ("srt", "vtt")
ONE_RECORDING: Final = (*SUBTITLES, "html")  # the formats whose files have only one

VTT_HEADER: Final = "WEBVTT\n"

# A word that ends later than this before the end of the audio may be cut in two.
TAIL_MS: Final = 200
STOP_CUE_MS: Final = 2_000  # SRT has no remarks, so a cue says where it stops

_SEGMENT_KEYS: Final = ("start_ms", "end_ms", "text", "confidence", "words")
_OPTIONAL_KEYS: Final = ("channel", "speaker", "turn", "spoken", "alternatives", "language")


class _SpokenWord(TypedDict, total=False):
    spoken: str  # with the written form: the word as it was spoken
    speaker: int  # if speakers are told apart


class TranscriptWord(_SpokenWord):
    """A word of a transcript."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float


class _SegmentOptions(TypedDict, total=False):
    channel: int  # with channels that are recognised separately
    speaker: int  # if speakers are told apart: the one of most words
    turn: float  # if the end of a turn ended the segment: the probability that it was over
    spoken: str  # with the written form: the text as it was spoken
    alternatives: list[dict[str, object]]  # if the session asked for some
    language: str  # with `language` `"auto"`: what was spoken, such as `de`, if a reader found it out


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
        self.duration_ms = 0  # how much audio was recognised
        self.recording_ms: int | None = None  # how long the recording is, if that is known
        self.channel_names: Sequence[str] = ()  # who speaks in each channel; empty for one without a name
        self.speaker_names: Sequence[str] = ()  # the names of the speakers; empty for one without a name
        self._segments: list[TranscriptSegment] = []
        self._tails: dict[int | None, tuple[TranscriptSegment, int]] = {}  # see `break_off`
        self._restarts: dict[int | None, int] = {}  # from where another session of the service goes on, by channel
        self.complete = False

    def add(self, event: SessionEvent) -> None:
        """Add an event of the session. Text comes from finals only."""
        if event["type"] == "final":
            optional = {key: event[key] for key in _OPTIONAL_KEYS if key in event}
            segment = cast(TranscriptSegment, {key: event.get(key) for key in _SEGMENT_KEYS} | optional)
            self._segments.append(segment)
            if is_abrupt(event):
                self._tails[event.get("channel")] = segment, event["audio_ms"]
            else:
                self._tails.pop(event.get("channel"), None)
        elif event["type"] == "restarted":
            self._restarts[event.get("channel")] = event["from_ms"]
        elif event["type"] == "speaker_merge":
            from_ms = self._restarts.get(event.get("channel"), 0)
            for segment in self._segments:
                if segment.get("channel") == event.get("channel") and segment["start_ms"] >= from_ms:
                    segment.update(cast(TranscriptSegment, with_merge(segment, event["speaker"], event["into"])))
        elif event["type"] == "speakers":
            turns = [TimedTurn(turn["start_ms"], turn["end_ms"], turn["speaker"]) for turn in event["turns"]]
            from_ms = self._restarts.get(event.get("channel"), 0)  # the new session has not heard what was before
            for segment in self._segments:
                if segment.get("channel") == event.get("channel") and segment["start_ms"] >= from_ms:
                    told = cast(TranscriptSegment, with_turns(segment, turns))
                    segment.pop("speaker", None)
                    segment.update(told)
        # Channels are not recognised at the same pace, so the one that is furthest counts.
        self.duration_ms = max(self.duration_ms, event.get("audio_ms", 0))
        self.complete = self.complete or event["type"] == "done"

    def break_off(self) -> None:
        """Note that the recording goes on after the audio that was recognised.

        A word at the end of that audio was cut in two, so nobody knows what it is: it is dropped.
        """
        self.complete = False
        for segment, audio_ms in self._tails.values():
            index = next(index for index, each in enumerate(self._segments) if each is segment)
            self._segments[index : index + 1] = _without_tail(segment, audio_ms)
        self._tails.clear()

    @property
    def stopped_ms(self) -> int | None:
        """The time at which the text ends if the recording goes on; None if the transcript is complete."""
        return None if self.complete else max((segment["end_ms"] for segment in self._segments), default=0)

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
        """Return the transcript as json, srt, vtt, html, or text (in paragraphs). Raise ValueError otherwise.

        html is a page for reading, without the sound; `render_page` adds it.
        """
        if format not in _WRITERS:
            raise ValueError(f"a transcript is written as {', '.join(_WRITERS)}, not as {format!r}")
        return _WRITERS[format](self)


def channel_prefix(event: SessionEvent) -> str:
    """Return the label of an event's channel and speaker, such as `[1] `. Empty if there is only one of both."""
    return voice_label(event.get("channel"), speaker=event.get("speaker"))


def is_abrupt(final: SessionEvent) -> bool:
    """Return whether a final ended because its audio did, so that its last word may be cut in two."""
    heard_ms = final.get("audio_ms", 0)
    ended = final.get("cut_ms") is not None and final["cut_ms"] >= heard_ms and "turn" not in final
    return ended and heard_ms - final["end_ms"] < TAIL_MS


def stop_text(transcript: Transcript) -> str:
    """Return the words that say where a transcript stops. Empty if it is complete."""
    if (stopped_ms := transcript.stopped_ms) is None:
        return ""
    whole = "" if transcript.recording_ms is None else f" of {clock(transcript.recording_ms)}"
    return f"stopped at {clock(stopped_ms)}{whole}"


def stop_event(transcript: Transcript) -> dict[str, object]:
    """Return the last line of jsonl for a transcript that is not complete."""
    return {"type": "stopped", **_completeness(transcript)}


class TextWriter:
    """Writes text in paragraphs, final by final. Each method returns the text to append."""

    def __init__(self, *, times: bool = False, names: Sequence[str] = (), speakers: Sequence[str] = ()) -> None:
        """`times`: each paragraph begins with its time. `names`: those of the channels. `speakers`: their names."""
        self._names, self._speakers = names, speakers
        self._rule = ParagraphRule()
        self._times = times
        self._last = ""  # the last sentence

    def add(self, final: SessionEvent) -> str:
        """Add a final."""
        text = ""
        for sentence in self._rule.sentences(final):
            if self._rule.begins(sentence):
                time = f"[{short_timestamp(sentence.start_ms)}] " if self._times else ""
                label = voice_label(sentence.channel, self._names, sentence.speaker, self._speakers)
                text += ("\n\n" if self._last else "") + time + label
            else:
                text += separator(self._last, sentence.text)
            text += printable_lines(sentence.text)
            self._last = sentence.text
        return text

    def end(self, stopped: str = "") -> str:
        """End the text. `stopped`: what its last line says about where it stops."""
        return ("\n" if self._last else "") + (("\n" if self._last else "") + f"[{stopped}]\n" if stopped else "")


def text_line(final: SessionEvent) -> str:
    """Return a final as a line of text."""
    return f"{channel_prefix(final)}{printable_lines(final['text'])}\n"


def event_line(event: SessionEvent) -> str:
    """Return an event as a line of jsonl."""
    return json_text(event, separators=(",", ":")) + "\n"


def srt_cue(number: int, cue: Cue, names: Sequence[str] = (), speakers: Sequence[str] = ()) -> str:
    """Return a cue of SRT. Cues are numbered from 1, and an empty line separates them."""
    times = f"{timestamp(cue.start_ms, ',')} --> {timestamp(cue.end_ms, ',')}"
    label = voice_label(cue.channel, names, cue.speaker, speakers)
    return f"{number}\n{times}\n{label}" + "\n".join(map(printable, cue.lines)) + "\n"


def vtt_cue(cue: Cue, names: Sequence[str] = (), speakers: Sequence[str] = ()) -> str:
    """Return a cue of WebVTT. The caller writes an empty line before it."""
    # Imported only when it is needed, because every client imports this module.
    import html

    lines = "\n".join(html.escape(printable(line), quote=False) for line in cue.lines)
    name = html.escape(voice_name(cue.channel, names, cue.speaker, speakers), quote=False)
    voice = f"<v {name}>" if name else ""
    times = f"{timestamp(cue.start_ms, '.')} --> {timestamp(cue.end_ms, '.')}"
    return f"{times}\n{voice}{lines}\n"


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


def clock(milliseconds: int) -> str:
    """Return a time for people without tenths: 1:23, or 1:02:03 from an hour on."""
    return short_timestamp(milliseconds)[:-2]


def _without_tail(segment: TranscriptSegment, audio_ms: int) -> list[TranscriptSegment]:
    """Return the segment without the word at the end of the audio. Nothing if it had no other word."""
    words = segment["words"]
    kept = [word for word in words or timed_words(segment) if word["end_ms"] <= audio_ms - TAIL_MS]
    if not kept:
        return []
    shorter: TranscriptSegment = {
        **segment,
        "end_ms": kept[-1]["end_ms"],
        "text": joined(word["word"] for word in kept),
        "words": cast("list[TranscriptWord]", kept) if words else None,
    }
    shorter.pop("alternatives", None)  # they have the dropped word
    if "spoken" in segment:
        shorter["spoken"] = joined(str(word.get("spoken", word["word"])) for word in kept)
    return [shorter]


def _completeness(transcript: Transcript) -> dict[str, object]:
    """Return the fields that say whether a transcript is whole."""
    fields: dict[str, object] = {"complete": transcript.complete}
    if transcript.stopped_ms is not None:
        fields["stopped_at_s"] = transcript.stopped_ms / 1000
    if transcript.recording_ms is not None:
        fields["duration_s"] = transcript.recording_ms / 1000
    return fields


def _text(transcript: Transcript) -> str:
    writer = TextWriter(names=transcript.channel_names, speakers=transcript.speaker_names)
    return "".join(map(writer.add, transcript.segments)) + writer.end(stop_text(transcript))


def json_content(transcript: Transcript) -> dict[str, object]:
    """Return the JSON object of a transcript."""
    names = {
        name: value
        for name, value in (("channel_names", transcript.channel_names), ("speaker_names", transcript.speaker_names))
        if any(value)
    }
    return {
        "file": transcript.file,
        "text": transcript.text,
        "duration_ms": transcript.duration_ms,
        **_completeness(transcript),
        **names,
        "segments": transcript.segments,
    }


def _json(transcript: Transcript) -> str:
    return json_text(json_content(transcript)) + "\n"


def _srt(transcript: Transcript) -> str:
    names = transcript.channel_names, transcript.speaker_names
    cues = make_cues(transcript.segments, *names)
    if stopped := stop_text(transcript):
        begin = max([transcript.stopped_ms or 0, *(cue.end_ms for cue in cues)])
        cues.append(Cue(begin, begin + STOP_CUE_MS, (f"[{stopped}]",)))
    return "\n".join(srt_cue(number, cue, *names) for number, cue in enumerate(cues, 1))


def _vtt(transcript: Transcript) -> str:
    stopped = stop_text(transcript)
    notes = [f"NOTE {stopped}\n"] if stopped else []
    names = transcript.channel_names, transcript.speaker_names
    return "\n".join([VTT_HEADER, *(vtt_cue(cue, *names) for cue in make_cues(transcript.segments, *names)), *notes])


def render_page(transcript: Transcript, sound: Sound | None = None) -> str:
    """Return a page for reading, with the sound if it is given."""
    # Imported only when it is needed, because every client imports this module.
    from streamer.base.reading_page import reading_page

    title = PurePath(transcript.file).name or "Transcript"
    return reading_page(
        title,
        transcript.segments,
        transcript.channel_names,
        stop_text(transcript),
        sound,
        transcript.speaker_names,
    )


_WRITERS: Final[Mapping[str, Callable[[Transcript], str]]] = {
    "text": _text,
    "json": _json,
    "srt": _srt,
    "vtt": _vtt,
    "html": render_page,
}
