"""Events as text: `parse` reads what a model sends to the bridge, and `render` writes what a client gets.

`streamer/base/events.py` describes both. How to read an event follows from the types of its fields there. `CHECKS` has
what types cannot say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from streamer.base.events import (
    Alternative,
    Cut,
    HeadEvent,
    ModelEvent,
    Opened,
    Other,
    Passage,
    ServerMessage,
    Word,
    content,
    marks_of,
    plain_type,
)
from streamer.base.events import Final as FinalMessage
from streamer.base.limits import LONGEST_LANGUAGE, MOST_CONTEXT_WORDS, STEPS_MS
from streamer.base.text_context import ContextWord
from streamer.wire.errors import kind_of
from streamer.wire.native import encode

# An operator's head may send any content, but not of any length: the service keeps the content for a while.
LONGEST_HEAD_NAME: Final = 64
LONGEST_HEAD_CONTENT: Final = 4096
# With shorter pieces, so many requests a second would cost more than they gain.
SHORTEST_PIECE_MS: Final = 20
MOST_AHEAD_MS: Final = 10_000
MOST_LANGUAGES: Final = 1000

KINDS: Final[Sequence[type[Any]]] = [kind for kind in get_args(ModelEvent) if kind is not Other]
_KIND_OF: Final[Mapping[str, type[Any]]] = {kind.type: kind for kind in KINDS}
# The fields that no model sends.
ADDED: Final = {Passage.ADDED, Passage.ALWAYS_ADDED, Passage.WITHHELD}
T = TypeVar("T")
_UNCOUNTED: Final[Counter[Unknown]] = Counter()


class Unknown(str, Enum):
    """What a later model sends and this version ignores."""

    EVENT = "event"
    FIELD = "field"


def render(number: int, message: ServerMessage) -> str:
    """Write a message as the text of one frame. Fields that are None are left out."""
    return encode({"type": message.type, "n": number, **content(message)})


def parse(text: str | bytes, unknown: Counter[Unknown] | None = None) -> ModelEvent:
    """Read one event of a model. Raise ValueError, which says what is wrong, if it is not valid.

    `unknown`: counts the events and fields that are ignored.
    """
    event = json.loads(text)
    if not isinstance(event, dict):
        raise ValueError(f"an event must be an object, not {kind_of(event)}")
    name = event.get("type")
    if not isinstance(name, str):
        raise ValueError("an event must have a 'type', which is a string")
    unknown = _UNCOUNTED if unknown is None else unknown
    kind = _KIND_OF.get(name)
    if kind is None:
        unknown[Unknown.EVENT] += 1
        return Other(name, {name: value for name, value in event.items() if name != "type"})
    found: ModelEvent = _read(kind, event, unknown, 1)
    check = CHECKS.get(kind)
    if check is not None:
        check(found)
    return found


def _check_opened(event: Opened) -> None:
    piece_ms, languages = event.piece_ms, event.languages or ()
    if piece_ms is not None and not SHORTEST_PIECE_MS <= piece_ms <= max(STEPS_MS):
        raise ValueError(f"'piece_ms' of 'opened' must be from {SHORTEST_PIECE_MS} to {max(STEPS_MS)}, not {piece_ms}")
    step_ms, longest = event.step_ms, 2 * max(STEPS_MS)
    if step_ms is not None and not SHORTEST_PIECE_MS <= step_ms <= longest:
        raise ValueError(f"'step_ms' of 'opened' must be from {SHORTEST_PIECE_MS} to {longest}, not {step_ms}")
    if event.ahead_ms is not None and not 0 <= event.ahead_ms <= MOST_AHEAD_MS:
        raise ValueError(f"'ahead_ms' of 'opened' must be from 0 to {MOST_AHEAD_MS}, not {event.ahead_ms}")
    if not all(len(name) <= LONGEST_LANGUAGE for name in languages):
        raise ValueError(f"'languages' of 'opened' must be strings of at most {LONGEST_LANGUAGE} characters")
    if len(languages) > MOST_LANGUAGES:
        raise ValueError(f"'languages' of 'opened' has {len(languages)} names; at most {MOST_LANGUAGES} are allowed")


def _check_final(event: FinalMessage) -> None:
    if event.language is not None and not 0 < len(event.language) <= LONGEST_LANGUAGE:
        raise ValueError(f"'language' of 'final' must have 1 to {LONGEST_LANGUAGE} characters")


def _check_head(event: HeadEvent) -> None:
    if not 0 < len(event.name) <= LONGEST_HEAD_NAME or len(json.dumps(event.content)) > LONGEST_HEAD_CONTENT:
        limits = f"1 to {LONGEST_HEAD_NAME} characters, and its 'content' at most {LONGEST_HEAD_CONTENT}"
        raise ValueError(f"the 'name' of 'head' must have {limits}")


def _check_cut(event: Cut) -> None:
    if event.context is not None and len(event.context) > MOST_CONTEXT_WORDS:
        raise ValueError(f"'context' of 'cut' has {len(event.context)} words; at most {MOST_CONTEXT_WORDS} are allowed")


CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    Opened: _check_opened,
    FinalMessage: _check_final,
    HeadEvent: _check_head,
    Cut: _check_cut,
}


# How to read a class.


class _Field(NamedTuple):
    """A field in JSON. `kind` is the type of its value there, or of the members of a list.

    A value of the type `plain` needs no conversion. It is None for lists.
    """

    name: str
    kind: type[Any]
    plain: type[Any] | None
    required: bool


class _Plan(NamedTuple):
    """How to read an event, or a part of one: its fields, and the values of those that are missing."""

    fields: tuple[_Field, ...]
    blank: dict[str, None]


def _plan(kind: type[Any]) -> _Plan:
    hints = get_type_hints(kind, include_extras=True)
    blank = {each.name: None for each in fields(kind)}
    read = [each for each in fields(kind) if not ADDED & set(marks_of(hints[each.name]))]
    return _Plan(tuple(_field(each.name, hints[each.name], each.default is MISSING) for each in read), blank)


def _field(name: str, hint: Any, required: bool) -> _Field:
    plain = plain_type(hint)
    if get_origin(plain) is tuple:
        return _Field(name, get_args(plain)[0], None, required)
    kind = plain if get_origin(plain) is None else dict  # an object with any content
    return _Field(name, kind, kind, required)


_PLANS: Final[Mapping[type[Any], _Plan]] = {kind: _plan(kind) for kind in (*KINDS, Word, Alternative, ContextWord)}


def _read(kind: type[T], event: Mapping[str, object], unknown: Counter[Unknown], known: int = 0) -> T:
    """Read an object of this class. `known`: how many fields it has that are not fields of the class."""
    plan = _PLANS[kind]
    values: dict[str, Any] = plan.blank.copy()
    for field in plan.fields:
        name, _, plain, required = field
        value = event.get(name)
        if type(value) is plain:  # not isinstance(): a boolean must not pass as a number
            values[name] = value
            known += 1
        elif value is not None:
            values[name] = _converted(field, event, value, unknown)
            known += 1
        elif required:
            raise _wrong(event, name, value)
        elif name in event:
            known += 1
    if known < len(event):
        unknown[Unknown.FIELD] += len(event) - known
    # Without __init__, which sets the fields of a frozen class one by one: that would take longer than all the rest.
    found = object.__new__(kind)
    found.__dict__.update(values)
    return found


def _converted(field: _Field, event: Mapping[str, object], value: Any, unknown: Counter[Unknown]) -> Any:
    """Convert a value whose type is not that of the class."""
    name, kind, plain, required = field
    if plain is None and is_dataclass(kind):
        if type(value) is not list or not all(type(part) is dict for part in value):
            raise ValueError(f"'{name}' of '{event['type']}' must be a list of objects")
        return tuple([_read(kind, part, unknown) for part in value])
    if plain is None:
        if type(value) is not list:
            raise _wrong(event, name, value)
        if not all(type(part) is kind for part in value):
            raise ValueError(f"'{name}' of '{event['type']}' must be strings of at most {LONGEST_LANGUAGE} characters")
        return tuple(value)
    if kind is float and type(value) is int:
        return value
    if type(value) is str and issubclass(kind, Enum):
        if required or value in [each.value for each in kind]:
            return kind(value)
        unknown[Unknown.FIELD] += 1  # a later model has more values
        return None
    raise _wrong(event, name, value)


def _wrong(event: Mapping[str, object], name: str, value: object) -> ValueError:
    owner = event.get("type", "part of an event")
    if name not in event:
        return ValueError(f"'{owner}' lacks '{name}'")
    return ValueError(f"'{name}' of '{owner}' cannot be {kind_of(value)}")
