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
from streamer.wire.text_context import TextContext


@dataclass(frozen=True)
class Word:
    """A word with its times; `spoken` is what was said where the word is the written form."""

    word: str
    start_ms: int
    end_ms: int
    confidence: float | None = None  # a partial's words have none
    spoken: str | None = None


@dataclass(frozen=True)
class Alternative:
    """A text that a final might have had."""

    text: str
    confidence: float


@dataclass(frozen=True)
class Ready:
    """The session is open, or goes on after a lost connection. Then `flushes` is how many flushes have arrived."""

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
    """The model of the session is being loaded. It may come before `ready`, with the number 0."""

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
    cut_ms: int | None = None  # audio from here on belongs to later segments; a model sends this as a cut
    channel: int | None = None
    context: TextContext | None = None  # for a session that goes on from the cut; a model sends this with a cut
    turn: float | None = None  # how likely it was that the turn was over, if its end ended the segment


class SpeechState(str, Enum):
    """Whether speech began or ended."""

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
    """What is said about a turn."""

    EAGER = "eager"  # it is probably over
    RESUMED = "resumed"  # it was said to be probably over, and goes on
    END = "end"


@dataclass(frozen=True)
class Turn:
    """Whether the turn that the running segment belongs to is over."""

    type: ClassVar[str] = "turn"
    state: TurnState
    segment: int
    probability: float
    audio_ms: int
    channel: int | None = None


@dataclass(frozen=True)
class HeadEvent:
    """What a head of the operator's own found in the speech, such as a keyword. `name` is the name of the head."""

    type: ClassVar[str] = "head"
    name: str
    at_ms: int
    content: Mapping[str, Any]
    channel: int | None = None


@dataclass(frozen=True)
class Heard:
    """How much audio has been recognised so far."""

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


def content(of: object) -> dict[str, Any]:
    """Return the fields of a message, or of a part of one, as values for JSON."""
    found = {name: value for name, value in vars(of).items() if value is not None}
    for name, value in found.items():
        if isinstance(value, tuple):
            found[name] = [content(part) for part in value]
        elif is_dataclass(value):
            found[name] = content(value)
    return found
