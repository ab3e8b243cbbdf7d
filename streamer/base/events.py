"""The events of a session, from the engine through the service to a client: every name, unit and type stands here once.

The engine makes the events of one stream, and writes them as JSON (`as_json`). A bridge reads those (`wire/events.py`)
and passes some of them on, with times of the session and with fields that it adds itself (`Passage`). It has further
messages of its own. What a client gets (`client/events.py`, `web/events.js`) is generated from this module by
`scripts/docs/event_types.py`, with the comments that stand behind fields here.
`docs/explanation/architecture.md` says how to add an event. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from streamer.base.codes import ErrorCode
from streamer.base.text_context import ContextWord, TextContext


class Unit(Enum):
    """What the number of a field counts from the start of its stream. So a bridge knows how to convert it."""

    TIME = "milliseconds"
    WORD_TIME = "milliseconds, never before the end of the last final"
    HEAD_TIME = "milliseconds from the start of the sequence, as a head counts them"
    SAMPLE = "samples"
    SEGMENT = "segments"


class Passage(Enum):
    """The part of the way that a field goes, if not the whole one from a model to a client."""

    ADDED = "a bridge adds it"
    ALWAYS_ADDED = "a bridge adds it to each message"
    WITHHELD = "a bridge adds it; our clients act on it, and do not show it to their callers"
    IN_FINALS = "it is in each word of a final, and in no word of a partial"


T = TypeVar("T")
Time = Annotated[int, Unit.TIME]
WordTime = Annotated[int, Unit.WORD_TIME]
HeadTime = Annotated[int, Unit.HEAD_TIME]
Sample = Annotated[int, Unit.SAMPLE]
Segment = Annotated[int, Unit.SEGMENT]
Added = Annotated[T, Passage.ADDED]
AlwaysAdded = Annotated[T, Passage.ALWAYS_ADDED]
Withheld = Annotated[T, Passage.WITHHELD]
InFinals = Annotated[T, Passage.IN_FINALS]


# Parts of events.


@dataclass(frozen=True)
class Word:
    """A word with its times."""

    word: str
    start_ms: WordTime
    end_ms: WordTime
    confidence: InFinals[float | None] = None
    spoken: str | None = None  # with `written`: the word as it was spoken
    speaker: Added[int | None] = None  # with `speakers`: who says it, counted from 0


@dataclass(frozen=True)
class SpeakerTurn:
    """A time in which a speaker speaks."""

    start_ms: Time
    end_ms: Time
    speaker: int


@dataclass(frozen=True)
class Alternative:
    """Another possible text of a final."""

    text: str
    confidence: float  # its probability among the alternatives


# Events that a model sends and a client gets.


@dataclass(frozen=True)
class Partial:
    """The text of the running segment so far. Its first `stable` characters will not change."""

    type: ClassVar[str] = "partial"
    segment: Segment
    text: str
    stable: int
    start_ms: WordTime
    audio_ms: Time
    words: tuple[Word, ...] | None = None  # with `partial_words`
    channel: Added[int | None] = None  # with `multichannel`


class ReadBy(str, Enum):
    """What has read the words of a `Final`. Later versions may have further values."""

    FIRST_PASS = "first_pass"  # step by step, while the segment was spoken
    SECOND_PASS = "second_pass"  # the whole segment, after its end
    READER = "reader"  # the whole segment, by another model


@dataclass(frozen=True)
class Final:
    """The text of a finished segment, which never changes."""

    type: ClassVar[str] = "final"
    segment: Segment
    text: str
    start_ms: WordTime
    end_ms: WordTime
    audio_ms: Time
    confidence: float
    words: tuple[Word, ...] | None = None  # unless `words` is off
    spoken: str | None = None  # with `written`: the text as it was spoken
    alternatives: tuple[Alternative, ...] | None = None  # with `alternatives`
    cut_ms: AlwaysAdded[int | None] = None  # audio from here on belongs to later segments
    channel: Added[int | None] = None  # with `multichannel`
    context: Withheld[TextContext | None] = None  # for a session that goes on from here
    abrupt: Withheld[bool | None] = None  # true: the service itself ended the session here, perhaps within a word
    turn: float | None = None  # the probability that the turn was over, if the end of a turn ended the segment
    read_by: ReadBy | None = None  # with `second_pass`: which pass has read the words
    speaker: Added[int | None] = None  # with `speakers`: who says most of its words
    language: str | None = None  # with `language` `"auto"`: what was spoken, such as `de`, if a reader found it out


class SpeechState(str, Enum):
    """The states of `Speech`."""

    START = "start"
    END = "end"


@dataclass(frozen=True)
class Speech:
    """Somebody began or stopped speaking."""

    type: ClassVar[str] = "speech"
    state: SpeechState
    at_ms: Time
    channel: Added[int | None] = None  # with `multichannel`


class TurnState(str, Enum):
    """The states of `Turn`."""

    EAGER = "eager"  # the turn is probably over
    RESUMED = "resumed"  # the turn goes on after all, although EAGER was sent
    END = "end"


@dataclass(frozen=True)
class Turn:
    """With `turns`: a turn is probably over, goes on after all, or is over."""

    type: ClassVar[str] = "turn"
    state: TurnState
    segment: Segment
    probability: float
    audio_ms: Time
    channel: Added[int | None] = None  # with `multichannel`


@dataclass(frozen=True)
class HeadEvent:
    """A result of a head that the operator has added to the model, such as a keyword."""

    type: ClassVar[str] = "head"
    name: str  # the name of the head
    at_ms: HeadTime
    content: Mapping[str, object]
    channel: Added[int | None] = None  # with `multichannel`


@dataclass(frozen=True)
class Flushed:
    """The answer to a flush: everything up to here is final."""

    type: ClassVar[str] = "flushed"
    audio_ms: Time


# Events that only a model sends, to its bridge.


@dataclass(frozen=True)
class Opened:
    """The first event of a sequence. It says which model and which instance compute the sequence.

    `piece_ms`: the model detects speech in pieces of this length, so it may get audio before a step is complete.
    `languages`: the languages of the model; a sequence may choose one of them. `step_ms`: the step that the model takes
    for the wanted one, if it has none of the usual steps, or reads more than a step. `ahead_ms`: how much audio after
    each step it reads with it.
    """

    type: ClassVar[str] = "opened"
    model: str | None = None
    instance: str | None = None
    piece_ms: int | None = None
    languages: tuple[str, ...] | None = None
    step_ms: int | None = None
    ahead_ms: int | None = None


@dataclass(frozen=True)
class Closed:
    """The sequence is over."""

    type: ClassVar[str] = "closed"
    model: str | None = None
    instance: str | None = None


@dataclass(frozen=True)
class Cut:
    """A new segment starts at this sample. No audio before it will be needed again.

    A stream that replaces this one from here on takes the other fields as options, as far as they are set. `context`
    has the last words, which decide the marks and capitals of the next words. It is None if no model decides these.
    `told` is the state in the last event of speech; None if it is the same as `speaking`.
    """

    type: ClassVar[str] = "cut"
    sample: Sample
    speaking: bool | None = None
    begins: bool | None = None
    context: tuple[ContextWord, ...] | None = None
    told: bool | None = None


@dataclass(frozen=True)
class Heard:
    """The amount of audio of the stream that has arrived. It is the last event of every answer.

    `due`: a turn may end at this sample, before the end of a step. So the model wants the audio up to it at once.
    `reader_ms`: for how long a reader was asked for the segments that ended since the last answer; None if it was not.
    """

    type: ClassVar[str] = "heard"
    sample: Sample
    audio_ms: Time | None = None
    due: Sample | None = None
    reader_ms: int | None = None


@dataclass(frozen=True)
class Again:
    """The encoder must compute again from this sample: a segment was cut there, and the later frames are dropped.

    Only models of several steps send it: their first step does not know where the last step has cut. The next request
    must have these fields as its option `again`. `run` counts these events from 1. `speaking` tells the heads of the
    encoder whether somebody spoke before the cut.
    """

    type: ClassVar[str] = "again"
    sample: Sample
    run: int
    speaking: bool


@dataclass(frozen=True)
class Other:
    """An event of a later model, which this version does not know."""

    type: str
    fields: Mapping[str, object]


# Messages of the service itself.


@dataclass(frozen=True)
class Ready:
    """The session is open, or it goes on after a lost connection."""

    type: ClassVar[str] = "ready"
    session: str
    token: str
    model: str  # the public name that the session asked for
    triton_model: str  # the Triton model that this name means at present
    sample_rate: int
    from_sample: int
    flushes: Withheld[int | None] = None  # after a lost connection: how many flushes the service has received


@dataclass(frozen=True)
class Starting:
    """The model of the session is being loaded. This message may come before `ready`, and then has the number 0."""

    type: ClassVar[str] = "starting"
    model: str


@dataclass(frozen=True)
class Acknowledgement:
    """The length of the audio that has been recognised so far."""

    type: ClassVar[str] = "heard"
    audio_ms: int


@dataclass(frozen=True)
class Recovered:
    """The session goes on after the recogniser failed."""

    type: ClassVar[str] = "recovered"
    gap_ms: int


@dataclass(frozen=True)
class SpeakerMerge:
    """With `speakers`: two speakers turned out to be one. All words so far of `speaker` are of `into`.

    This comes at most once in a channel, and `speaker` speaks no more.
    """

    type: ClassVar[str] = "speaker_merge"
    speaker: int
    into: int
    channel: int | None = None  # with `multichannel`


@dataclass(frozen=True)
class Speakers:
    """With `speakers`, at the end of a recording: who speaks when, after a second look at the whole of it.

    It replaces the speakers in all finals: a word belongs to the turn in which most of it lies.
    """

    type: ClassVar[str] = "speakers"
    turns: tuple[SpeakerTurn, ...]
    channel: int | None = None  # with `multichannel`


@dataclass(frozen=True)
class Error:
    """An error. If it is `fatal`, the session ends."""

    type: ClassVar[str] = "error"
    code: ErrorCode
    message: str
    fatal: bool
    unrecognised_ms: Withheld[int | None] = None


@dataclass(frozen=True)
class Done:
    """The end: all of the audio has been recognised."""

    type: ClassVar[str] = "done"
    audio_ms: int


# A message that no service sends: a client makes it itself.


@dataclass(frozen=True)
class Restarted:
    """The client itself sends this: the service has lost the session, and another one goes on from `from_ms`.

    Partials of this segment and of later ones come again.
    """

    type: ClassVar[str] = "restarted"
    from_ms: int
    segment: int
    channel: int | None = None  # with `multichannel`


StreamEvent = Partial | Final | Speech | Turn | Cut | Flushed | Heard | Again
ModelEvent = StreamEvent | Opened | Closed | HeadEvent | Other
StreamResult = Partial | Final | Speech | Turn | HeadEvent  # of one channel of a session
Result = StreamResult | Flushed
ServerMessage = Ready | Result | Acknowledgement | Starting | Recovered | SpeakerMerge | Speakers | Error | Done


def as_json(event: ModelEvent) -> str:
    """Return an event of a model as a JSON object with `type` first. Fields that are None are left out."""
    return json.dumps({"type": event.type, **content(event)}, separators=(",", ":"), ensure_ascii=False)


def content(part: object) -> dict[str, object]:
    """Return the fields of an event, or of a part of one, as values for JSON. Fields that are None are left out."""
    values: dict[str, object] = {name: value for name, value in vars(part).items() if value is not None}
    for name, value in values.items():
        kind = type(value)
        if kind is tuple:
            values[name] = [each if type(each) is str else content(each) for each in vars(part)[name]]
        elif kind is TextContext:
            values[name] = content(value)
    return values


# How to read the annotations.

_UNIONS = (Union, type(int | None))


def units_of(kind: type[object]) -> tuple[tuple[str, Unit], ...]:
    """Return the fields of an event, or of a part of one, that have a unit."""
    marks = ((name, marks_of(hint)) for name, hint in get_type_hints(kind, include_extras=True).items())
    return tuple((name, unit) for name, found in marks for unit in found if isinstance(unit, Unit))


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return the units and passages that an annotation of a field has."""
    if get_origin(hint) is Annotated:
        return (*hint.__metadata__, *marks_of(hint.__origin__))
    return tuple(mark for part in _parts_of(hint) for mark in marks_of(part))


def plain_type(hint: Any) -> Any:
    """Return the type of a field's value, without what says more about it, and without None."""
    if get_origin(hint) is Annotated:
        return plain_type(hint.__origin__)
    parts = _parts_of(hint)
    return plain_type(parts[0]) if parts else hint


def _parts_of(hint: Any) -> list[Any]:
    """Return the members of a union that are not None; nothing if it is no union."""
    return [part for part in get_args(hint) if part is not type(None)] if get_origin(hint) in _UNIONS else []
