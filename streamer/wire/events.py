"""The messages from the service to a client: each kind is a class, and `render` turns one into text.

`docs/reference/protocol.md` explains them. The model sends Partial, Final, Speech, Turn, HeadEvent and Flushed in the
same form (`model_events.py`), but with the times of its sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, ClassVar

from streamer.wire.native import encode
from streamer.wire.options import TextContext


@dataclass(frozen=True)
class Word:
    """A word with its times. If the word is the written form, `spoken` is the spoken form."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float | None = None  # a partial's words have none
    spoken: str | None = None


@dataclass(frozen=True)
class Alternative:
    """Another possible text of a final."""

    text: str
    confidence: float


@dataclass(frozen=True)
class Ready:
    """The session is open, or it goes on after a lost connection.

    In the second case `flushes` is the number of flushes that the service has received.
    """

    type: ClassVar[str] = "ready"
    session: str
    token: str
    model: str
    triton_model: str
    sample_rate: int
    from_sample: int
    flushes: int | None = None


@dataclass(frozen=True)
class Starting:
    """The model of the session is being loaded. This message may come before `ready`, and then has the number 0."""

    type: ClassVar[str] = "starting"
    model: str


@dataclass(frozen=True)
class Partial:
    """The text of the running segment so far; its first `stable` characters will not change."""

    type: ClassVar[str] = "partial"
    segment: int
    text: str
    stable: int
    start_ms: int
    audio_ms: int
    words: tuple[Word, ...] | None = None
    channel: int | None = None


@dataclass(frozen=True)
class Final:
    """The text of a finished segment, which never changes."""

    type: ClassVar[str] = "final"
    segment: int
    text: str
    start_ms: int
    end_ms: int
    audio_ms: int
    confidence: float
    words: tuple[Word, ...] | None = None
    spoken: str | None = None
    alternatives: tuple[Alternative, ...] | None = None
    cut_ms: int | None = None  # audio from here on belongs to later segments; a model sends it in its event `cut`
    channel: int | None = None
    context: TextContext | None = None  # for a session that goes on from here; a model sends it in its event `cut`
    turn: float | None = None  # the probability that the turn was over, if the end of a turn ended the segment


class SpeechState(str, Enum):
    """The states of `Speech`."""

    START = "start"
    END = "end"


@dataclass(frozen=True)
class Speech:
    """Speech began or ended."""

    type: ClassVar[str] = "speech"
    state: SpeechState
    at_ms: int
    channel: int | None = None


class TurnState(str, Enum):
    """The states of `Turn`."""

    EAGER = "eager"  # the turn is probably over
    RESUMED = "resumed"  # the turn goes on after all, although EAGER was sent
    END = "end"


@dataclass(frozen=True)
class Turn:
    """The turn of the running segment is probably over, goes on after all, or is over."""

    type: ClassVar[str] = "turn"
    state: TurnState
    segment: int
    probability: float
    audio_ms: int
    channel: int | None = None


@dataclass(frozen=True)
class HeadEvent:
    """A result of a head that the operator has added to the model, such as a keyword. `name` is the head's name."""

    type: ClassVar[str] = "head"
    name: str
    at_ms: int
    content: Mapping[str, Any]
    channel: int | None = None


@dataclass(frozen=True)
class Heard:
    """The length of the audio that has been recognised so far."""

    type: ClassVar[str] = "heard"
    audio_ms: int


@dataclass(frozen=True)
class Flushed:
    """The answer to a flush."""

    type: ClassVar[str] = "flushed"
    audio_ms: int


@dataclass(frozen=True)
class Recovered:
    """The session goes on after the recogniser failed."""

    type: ClassVar[str] = "recovered"
    gap_ms: int


@dataclass(frozen=True)
class Error:
    """An error. If it is `fatal`, the session ends."""

    type: ClassVar[str] = "error"
    code: str
    message: str
    fatal: bool
    unrecognised_ms: int | None = None


@dataclass(frozen=True)
class Done:
    """The session is complete: all of its audio has been recognised."""

    type: ClassVar[str] = "done"
    audio_ms: int


Result = Partial | Final | Speech | Turn | HeadEvent | Flushed
ServerMessage = Starting | Ready | Result | Heard | Recovered | Error | Done


def render(number: int, message: ServerMessage) -> str:
    """Write a message as the text of one frame. Fields that are None are left out."""
    return encode({"type": message.type, "n": number, **content(message)})


def content(message: object) -> dict[str, Any]:
    """Return the fields of a message, or of a part of one, as values for JSON. Fields that are None are left out."""
    values = {name: value for name, value in vars(message).items() if value is not None}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = [content(part) for part in value]
        elif is_dataclass(value):
            values[name] = content(value)
    return values
