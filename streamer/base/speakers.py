"""Who says which words: speakers of words by their times, and the parts of a segment that one of them says. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from streamer.base.events import Final as FinalMessage
from streamer.base.json_types import JsonObject
from streamer.base.text import joined

_NEAR_MS: Final = 1000  # a word that is this far from every turn belongs to nobody

Segment = Mapping[str, Any]


class TimedTurn(NamedTuple):
    """A time in which a speaker speaks."""

    start_ms: int
    end_ms: int
    speaker: int


def speaker_at(start_ms: int, end_ms: int, turns: Iterable[TimedTurn]) -> int | None:
    """Return who speaks most of this time, or else the one who is nearest; None if nobody is near."""
    shared: dict[int, int] = {}
    nearest: tuple[int, int] | None = None
    for turn in turns:
        overlap = min(end_ms, turn.end_ms) - max(start_ms, turn.start_ms)
        if overlap > 0:
            shared[turn.speaker] = shared.get(turn.speaker, 0) + overlap
        elif -overlap <= _NEAR_MS and (nearest is None or -overlap < nearest[0]):
            nearest = -overlap, turn.speaker
    if shared:
        return max(shared, key=lambda speaker: shared[speaker])
    return None if nearest is None else nearest[1]


def main_speaker(speakers: Iterable[int | None]) -> int | None:
    """Return the speaker of most words; None if no word has one."""
    known = [speaker for speaker in speakers if speaker is not None]
    return max(known, key=known.count, default=None)


def with_turns(segment: Segment, turns: Sequence[TimedTurn]) -> JsonObject:
    """Return a segment whose words have the speakers of these turns."""
    told: JsonObject = {name: value for name, value in segment.items() if name != "speaker"}
    if segment.get("words"):
        words = [{**word, "speaker": speaker_at(word["start_ms"], word["end_ms"], turns)} for word in segment["words"]]
        speaker = main_speaker(word["speaker"] for word in words)
        told["words"] = [{name: value for name, value in word.items() if value is not None} for word in words]
    else:
        speaker = speaker_at(segment["start_ms"], segment["end_ms"], turns)
    return told if speaker is None else {**told, "speaker": speaker}


def with_merge(segment: Segment, speaker: int, into: int) -> JsonObject:
    """Return a segment in which another speaker says what this one said."""

    def merged(said: Mapping[str, Any]) -> JsonObject:
        return {**said, "speaker": into} if said.get("speaker") == speaker else dict(said)

    words = segment.get("words")
    return merged({**segment, "words": [merged(word) for word in words]} if words else segment)


def parts_of(segment: Segment) -> list[Segment]:
    """Return the parts of a segment that one speaker says; the segment itself if nobody else says a part of it."""
    words = segment.get("words") or ()
    speakers = _without_gaps([word.get("speaker") for word in words])
    if len(set(speakers)) < 2 or joined(word["word"] for word in words) != segment["text"]:
        return [segment]
    parts: list[Segment] = []
    for speaker, numbered in groupby(zip(speakers, words, strict=True), key=lambda pair: pair[0]):
        own = [word for _, word in numbered]
        times = {"start_ms": own[0]["start_ms"], "end_ms": own[-1]["end_ms"]}
        text = {"text": joined(word["word"] for word in own), "words": own, "speaker": speaker}
        parts.append({**segment, **times, **text})
    for part in parts[:-1]:
        if isinstance(part, dict):
            part.pop("turn", None)  # it ends with the last one
    return parts


def _without_gaps(speakers: Sequence[int | None]) -> list[int | None]:
    """Give a word without a speaker to the one before it, or to the next one at the beginning."""
    filled: list[int | None] = []
    last = next((speaker for speaker in speakers if speaker is not None), None)
    for speaker in speakers:
        last = last if speaker is None else speaker
        filled.append(last)
    return filled


def with_speakers(final: FinalMessage, turns: Sequence[TimedTurn]) -> FinalMessage:
    """Return a final whose words have the speakers of these turns; the final has the one of most of its words."""
    if final.words is None:
        return replace(final, speaker=speaker_at(final.start_ms, final.end_ms, turns))
    words = [replace(word, speaker=speaker_at(word.start_ms, word.end_ms, turns)) for word in final.words]
    return replace(final, words=tuple(words), speaker=main_speaker(word.speaker for word in words))
