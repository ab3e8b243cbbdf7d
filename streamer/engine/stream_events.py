"""The events by which the recogniser reports on a stream.

Times are milliseconds, and samples count, from the start of the stream. Partial, Final, Speech, Turn, Heard, Flushed
and Alternative have the names of the events that a client of a session receives (`streamer.client.events`): they are
the same events, before the bridge combines the streams of a session.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from streamer.engine.text.marks import HeardWord


@dataclass(frozen=True)
class SpokenWord:
    """A word with its times in the stream. If `word` is the written form, `spoken` is what was said."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float | None = None
    spoken: str | None = None


@dataclass(frozen=True)
class Alternative:
    """Another text of a final, and its probability among the alternatives."""

    text: str
    confidence: float


@dataclass(frozen=True)
class Partial:
    """The text of the running segment so far. Its first `stable` characters will not change."""

    type: ClassVar[str] = "partial"
    segment: int
    text: str
    stable: int
    start_ms: int
    audio_ms: int
    words: tuple[SpokenWord, ...] | None = None


@dataclass(frozen=True)
class Final:
    """The text of a finished segment, which never changes. If `text` is the written form, `spoken` is what was said."""

    type: ClassVar[str] = "final"
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    confidence: float
    words: tuple[SpokenWord, ...] | None = None
    spoken: str | None = None
    alternatives: tuple[Alternative, ...] | None = None
    turn: float | None = None  # if the end of a turn ended the segment: the probability that the turn was over


@dataclass(frozen=True)
class Speech:
    """Somebody started ("start") or stopped ("end") speaking."""

    type: ClassVar[str] = "speech"
    state: str
    at_ms: int


@dataclass(frozen=True)
class Turn:
    """A turn is probably over ("eager"), goes on after all ("resumed"), or is over ("end")."""

    type: ClassVar[str] = "turn"
    state: str
    segment: int
    probability: float
    audio_ms: int


@dataclass(frozen=True)
class Cut:
    """A new segment starts at this sample. No audio before it will be needed again.

    A stream that replaces this one from here on takes the other fields as options. `context` has the last words, which
    decide the marks and capitals of the next words. It is None if no model decides these. `told` is the state in the
    last event of speech; None if it is the same as `speaking`.
    """

    type: ClassVar[str] = "cut"
    sample: int
    speaking: bool = False
    begins: bool = True
    context: tuple[HeardWord, ...] | None = None
    told: bool | None = None


@dataclass(frozen=True)
class Flushed:
    """The answer to a flush: everything up to here is final."""

    type: ClassVar[str] = "flushed"
    audio_ms: int


@dataclass(frozen=True)
class Heard:
    """The amount of audio of the stream that has arrived. It is the last event of every answer.

    `due`: a turn may end at this sample, before the end of a step. So the recogniser wants the audio up to it at once.
    """

    type: ClassVar[str] = "heard"
    sample: int
    audio_ms: int
    due: int | None = None


@dataclass(frozen=True)
class Again:
    """The encoder must compute again from this sample: a segment was cut there, and the later frames are dropped.

    `run` counts these events from 1. `speaking` tells the heads of the encoder whether somebody spoke before the cut.
    """

    type: ClassVar[str] = "again"
    sample: int
    run: int
    speaking: bool


StreamEvent = Partial | Final | Speech | Turn | Cut | Flushed | Heard | Again


class StreamError(Exception):
    """An error of one stream. The other streams of the batch go on."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def as_json(event: StreamEvent) -> str:
    """Return the event as a JSON object with `type` first. Fields that are None are left out."""
    return json.dumps({"type": event.type, **_fields(event)}, separators=(",", ":"), ensure_ascii=False)


def _fields(part: object) -> dict[str, Any]:
    values = {name: value for name, value in vars(part).items() if value is not None}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = [_fields(inner) for inner in value]
    return values
