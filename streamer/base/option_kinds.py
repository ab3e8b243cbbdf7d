"""What an option declares about itself: the kind of its values, its meaning, and its names elsewhere. Pure.

`streamer/base/options.py` declares the options of a session with these. The classes are plain ones and tuples, because
every client imports them, and each dataclass would cost it half a millisecond.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields
from enum import Enum
from typing import Any, Final, NamedTuple

from streamer.base.json_types import JsonObject
from streamer.base.text import either

OPTION: Final = "option"  # the key of the declaration in the metadata of a field
TEXT_SCHEMA: Final[JsonObject] = {"type": "string"}


class Kind:
    """A kind of value. `type` is the type of its values, and `right` says after "must be" which of them are valid."""

    type: type[Any] | None = str
    right: str = ""
    unit: str = ""

    def accepts(self, value: Any) -> bool:
        """Return whether a value of this type is valid."""
        return True

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        return dict(TEXT_SCHEMA)


class Flag(Kind):
    """True or false."""

    type = bool
    right = "true or false"

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        return {"type": "boolean"}


class FlagOr(Kind):
    """True or false, or one of a few words that mean a special way of true."""

    type = None  # values of two types

    def __init__(self, *words: str) -> None:
        self.words = words
        self.right = ", ".join(("true", "false", *(f'"{word}"' for word in words[:-1]))) + f' or "{words[-1]}"'

    def accepts(self, value: Any) -> bool:
        """Return whether this is true, false, or one of the words."""
        return type(value) is bool or value in self.words

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        return {"enum": [True, False, *self.words]}


class FlagOrWhole(Kind):
    """True or false, or a whole number within bounds that means a special way of true."""

    type = None  # values of two types

    def __init__(self, bounds: tuple[int, int]) -> None:
        self.least, self.most = bounds
        self.right = f"true, false or a whole number from {self.least} to {self.most}"

    def accepts(self, value: Any) -> bool:
        """Return whether this is true, false, or a number within the bounds."""
        return type(value) is bool or (type(value) is int and self.least <= value <= self.most)

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        return {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": self.least, "maximum": self.most}]}


class Choice(Kind):
    """One of several words or numbers."""

    def __init__(self, *values: Any, unit: str = "") -> None:
        self.values = values
        self.type = type(values[0])
        self.right = either(values)
        self.unit = unit

    def accepts(self, value: Any) -> bool:
        """Return whether this is one of the values."""
        return value in self.values

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        return {"enum": list(self.values)}


class Whole(Kind):
    """A whole number within bounds, or one of a few others."""

    type = int

    def __init__(self, bounds: tuple[int, int], *, also: tuple[int, ...] = (), unit: str = "") -> None:
        self.least, self.most = bounds
        self.also = also
        self.right = either([*also, f"a whole number from {self.least} to {self.most}"])
        self.unit = unit

    def accepts(self, value: Any) -> bool:
        """Return whether this number is within the bounds, or one of the others."""
        return self.least <= value <= self.most or value in self.also

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the values."""
        bounds = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {"anyOf": [{"enum": list(self.also)}, bounds]} if self.also else bounds


class Number(Kind):
    """A number within bounds, with or without a fraction."""

    type = float

    def __init__(self, bounds: tuple[float, float]) -> None:
        self.least, self.most = bounds
        self.right = f"a number from {self.least:g} to {self.most:g}"

    def accepts(self, value: Any) -> bool:
        """Return whether this number is within the bounds. NaN is not."""
        return bool(self.least <= value <= self.most)


class Phrase(Kind):
    """A string of a few words, with letters or digits."""

    def __init__(self, most_words: int, longest: int) -> None:
        self.most_words, self.longest = most_words, longest
        limits = f"1 to {most_words} words and at most {longest} characters"
        self.right = f"a phrase of {limits}, with letters or digits and only printable characters"

    def accepts(self, value: Any) -> bool:
        """Return whether this string is neither too long nor without a word."""
        short = 1 <= len(value.split()) <= self.most_words and len(value) <= self.longest
        return short and value.isprintable() and any(character.isalnum() for character in value)


class Text(Kind):
    """A string of at most so many characters. `pattern`: what it must match as a whole."""

    def __init__(self, longest: int | None = None, *, pattern: str = "", right: str = "a string") -> None:
        self.longest = longest
        self.right = right
        self._pattern = pattern

    def accepts(self, value: Any) -> bool:
        """Return whether this string is not too long, and has only what it may have."""
        if self.longest is not None and len(value) > self.longest:
            return False
        return not self._pattern or re.fullmatch(self._pattern, value) is not None


class Structure(Kind):
    """An object or a list, which has a reader of its own in each room. `python` and `javascript` write its type.

    In a query it is text: JSON, or a short form of its own.
    """

    def __init__(self, kind: type[Any], right: str, *, python: str, javascript: str) -> None:
        self.type = kind
        self.right = right
        self.python = python
        self.javascript = javascript


class Group(Enum):
    """The subject of an option. The reference has a table for each."""

    AUDIO = "audio"
    RECOGNITION = "recognition"
    RESULTS = "results"
    SESSION = "session"  # described in the text, in no table


class Argument(NamedTuple):
    """How the command line names an option."""

    flags: tuple[str, ...]
    metavar: str = ""  # empty: the unit of the values
    help: str = ""  # instead of that of the option
    default: str = ""  # what the help calls the default; empty: the value itself


class Control(NamedTuple):
    """How the page offers a choice: its label, and words for each value."""

    label: str
    values: Mapping[str, str]


class Service(Enum):
    """Another service whose clients can use this one."""

    DEEPGRAM = "Deepgram"
    OPENAI = "OpenAI"


class Foreign(NamedTuple):
    """The name of an option in a format of another service.

    `values` are the values of the option for the foreign ones. Without them, code of the format reads the option.
    """

    service: Service
    name: str
    meaning: str
    values: Mapping[bool, Any] | None = None


class Option(NamedTuple):
    """An option of a session."""

    name: str
    default: Any
    kind: Kind
    help: str  # a short sentence without a capital and a full stop
    detail: str  # the same in a table of the reference, in Markdown
    group: Group = Group.RESULTS
    argument: Argument | None = None
    control: Control | None = None
    recordings: bool = True  # whether it has a meaning for an uploaded recording
    public: str = ""  # what it does with a public model, in Markdown; empty: the same as with the shipped one
    foreign: tuple[Foreign, ...] = ()


def option(default: Any, kind: Kind, help: str = "", detail: str = "", *, secret: bool = False, **more: Any) -> Any:
    """Declare a field of a class of options. `secret`: no log may have it. `more`: the other values of `Option`."""
    return field(default=default, repr=not secret, metadata={OPTION: (default, kind, help, detail or help, more)})


def declared_options(owner: type[Any]) -> dict[str, Option]:
    """Return the options that this class of options declares, by name."""
    found: dict[str, Option] = {}
    for each in fields(owner):
        default, kind, help, detail, more = each.metadata[OPTION]
        found[each.name] = Option(each.name, default, kind, help, detail, **more)
    return found
