"""The events that a model sends for a sequence. `parse` reads one. `docs/reference/triton.md` describes them.

Times (in milliseconds) and samples count from the start of the sequence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from streamer.base.limits import LONGEST_LANGUAGE, MOST_CONTEXT_WORDS, STEPS_MS
from streamer.wire.errors import kind_of
from streamer.wire.events import (
    Alternative,
    Final,
    Flushed,
    HeadEvent,
    Partial,
    Speech,
    SpeechState,
    Turn,
    TurnState,
    Word,
)
from streamer.wire.options import ContextWord

# An operator's head may send any content, but not of any length: the service keeps the content for a while.
LONGEST_HEAD_NAME = 64
LONGEST_HEAD_CONTENT = 4096
# With shorter pieces, so many requests a second would cost more than they gain.
SHORTEST_PIECE_MS = 20
MOST_LANGUAGES = 1000


@dataclass(frozen=True)
class Opened:
    """The first event of a sequence. It says which model and which instance compute the sequence.

    `piece_ms`: the model detects speech in pieces of this length, so it may get audio before a step is complete.
    `languages`: the languages of the model; a sequence may choose one of them.
    """

    type: ClassVar[str] = "opened"
    model: str | None = None
    instance: str | None = None
    piece_ms: int | None = None
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cut:
    """A new segment starts at this sample. No audio before it will be needed again.

    If another sequence continues this one from here, it gets those of the other fields that are set as its options.
    """

    type: ClassVar[str] = "cut"
    sample: int
    speaking: bool | None = None
    begins: bool | None = None
    context: tuple[ContextWord, ...] | None = None
    told: bool | None = None


@dataclass(frozen=True)
class Heard:
    """The last event of every answer: how much audio of the sequence the model has received.

    `due`: the model wants the audio up to this sample before the next step is complete, because a turn may end there.
    """

    type: ClassVar[str] = "heard"
    sample: int
    audio_ms: int | None = None
    due: int | None = None


@dataclass(frozen=True)
class Again:
    """The model needs a reply before it goes on: the next request must have these fields as its option `again`.

    Only models that consist of several steps ask for it: their first step does not know where the last step has cut.
    """

    type: ClassVar[str] = "again"
    sample: int
    run: int
    speaking: bool


@dataclass(frozen=True)
class Other:
    """An event that the bridge does not use: `closed`, or an event that a later model adds."""

    type: str
    fields: Mapping[str, Any]


ModelEvent = Opened | Partial | Final | Speech | Turn | HeadEvent | Cut | Flushed | Heard | Again | Other
T = TypeVar("T")


def parse(text: str | bytes) -> ModelEvent:
    """Read one event of a model. Raise ValueError, which says what is wrong, if it is not valid."""
    event = json.loads(text)
    if not isinstance(event, dict):
        raise ValueError(f"an event must be an object, not {kind_of(event)}")
    kind = event.get("type")
    if not isinstance(kind, str):
        raise ValueError("an event must have a 'type', which is a string")
    read = _READERS.get(kind)
    if read is None:
        return Other(kind, {name: value for name, value in event.items() if name != "type"})
    return read(event)


def _opened(event: Mapping[str, Any]) -> Opened:
    piece_ms = _optional(event, "piece_ms", int)
    if piece_ms is not None and not SHORTEST_PIECE_MS <= piece_ms <= max(STEPS_MS):
        raise ValueError(f"'piece_ms' of 'opened' must be from {SHORTEST_PIECE_MS} to {max(STEPS_MS)}, not {piece_ms}")
    languages = tuple(_optional(event, "languages", list) or ())
    if not all(isinstance(name, str) and len(name) <= LONGEST_LANGUAGE for name in languages[: MOST_LANGUAGES + 1]):
        raise ValueError(f"'languages' of 'opened' must be strings of at most {LONGEST_LANGUAGE} characters")
    if len(languages) > MOST_LANGUAGES:
        raise ValueError(f"'languages' of 'opened' has {len(languages)} names; at most {MOST_LANGUAGES} are allowed")
    return Opened(_optional(event, "model", str), _optional(event, "instance", str), piece_ms, languages)


def _partial(event: Mapping[str, Any]) -> Partial:
    return Partial(
        _required(event, "segment", int),
        _required(event, "text", str),
        _required(event, "stable", int),
        _required(event, "start_ms", int),
        _required(event, "audio_ms", int),
        _parts(event, "words", _word),
    )


def _final(event: Mapping[str, Any]) -> Final:
    return Final(
        _required(event, "segment", int),
        _required(event, "text", str),
        _required(event, "start_ms", int),
        _required(event, "end_ms", int),
        _required(event, "audio_ms", int),
        _number(event, "confidence"),
        _parts(event, "words", _word),
        _optional(event, "spoken", str),
        _parts(event, "alternatives", _alternative),
        turn=_number(event, "turn") if "turn" in event else None,
    )


def _speech(event: Mapping[str, Any]) -> Speech:
    return Speech(SpeechState(_required(event, "state", str)), _required(event, "at_ms", int))


def _turn(event: Mapping[str, Any]) -> Turn:
    return Turn(
        TurnState(_required(event, "state", str)),
        _required(event, "segment", int),
        _number(event, "probability"),
        _required(event, "audio_ms", int),
    )


def _head(event: Mapping[str, Any]) -> HeadEvent:
    name, content = _required(event, "name", str), _required(event, "content", dict)
    if not 0 < len(name) <= LONGEST_HEAD_NAME or len(json.dumps(content)) > LONGEST_HEAD_CONTENT:
        limits = f"1 to {LONGEST_HEAD_NAME} characters, and its 'content' at most {LONGEST_HEAD_CONTENT}"
        raise ValueError(f"the 'name' of 'head' must have {limits}")
    return HeadEvent(name, _required(event, "at_ms", int), content)


def _cut(event: Mapping[str, Any]) -> Cut:
    context = _parts(event, "context", _context_word)
    if context is not None and len(context) > MOST_CONTEXT_WORDS:
        raise ValueError(f"'context' of 'cut' has {len(context)} words; at most {MOST_CONTEXT_WORDS} are allowed")
    return Cut(
        _required(event, "sample", int),
        _optional(event, "speaking", bool),
        _optional(event, "begins", bool),
        context,
        _optional(event, "told", bool),
    )


def _flushed(event: Mapping[str, Any]) -> Flushed:
    return Flushed(_required(event, "audio_ms", int))


def _heard(event: Mapping[str, Any]) -> Heard:
    return Heard(_required(event, "sample", int), _optional(event, "audio_ms", int), _optional(event, "due", int))


def _again(event: Mapping[str, Any]) -> Again:
    return Again(_required(event, "sample", int), _required(event, "run", int), _required(event, "speaking", bool))


_READERS: dict[str, Callable[[Mapping[str, Any]], ModelEvent]] = {
    "opened": _opened,
    "partial": _partial,
    "final": _final,
    "speech": _speech,
    "turn": _turn,
    "head": _head,
    "cut": _cut,
    "flushed": _flushed,
    "heard": _heard,
    "again": _again,
}


def _word(word: Mapping[str, Any]) -> Word:
    return Word(
        _required(word, "word", str),
        _required(word, "start_ms", int),
        _required(word, "end_ms", int),
        _number(word, "confidence") if "confidence" in word else None,
        _optional(word, "spoken", str),
    )


def _context_word(word: Mapping[str, Any]) -> ContextWord:
    return ContextWord(_required(word, "word", str), _required(word, "pause_ms", int))


def _alternative(alternative: Mapping[str, Any]) -> Alternative:
    return Alternative(_required(alternative, "text", str), _number(alternative, "confidence"))


def _parts(event: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...] | None:
    parts = event.get(name)
    if parts is None:
        return None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"'{name}' of '{event['type']}' must be a list of objects")
    return tuple(read(part) for part in parts)


def _required(event: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = event.get(name)
    # type(), not isinstance(): a boolean must not pass as a number.
    if type(value) is not kind:
        raise _wrong(event, name, value)
    return value


def _optional(event: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = event.get(name)
    if value is not None and type(value) is not kind:
        raise _wrong(event, name, value)
    return value


def _number(event: Mapping[str, Any], name: str) -> float:
    value = event.get(name)
    if type(value) is not float and type(value) is not int:
        raise _wrong(event, name, value)
    return value


def _wrong(event: Mapping[str, Any], name: str, value: object) -> ValueError:
    owner = event.get("type", "part of an event")
    if name not in event:
        return ValueError(f"'{owner}' lacks '{name}'")
    return ValueError(f"'{name}' of '{owner}' cannot be {kind_of(value)}")
