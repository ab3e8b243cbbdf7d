"""Settings and the kinds of their values: each is read from text or from TOML, and written as TOML.

Arguments of other commands follow the same rules, so that a port is checked in the same way everywhere.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from streamer.base.limits import InstanceBounds
from streamer.base.text import either, is_unicode, json_text

LONGEST_SHOWN: Final = 80
MOST_INSTANCES: Final = 1024
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
# A password in an address, and an API key given by mistake where a file is expected.
_SECRETS: Final = ((re.compile(r"://[^/@\s]*@"), "://…@"), (re.compile(r"\bstreamer_[\w-]{20,}"), "streamer_…"))


class WrongValueError(ValueError):
    """A value that is not valid. The message follows the setting's name, for example "must be 1 or more, not 0"."""


class Kind(ABC):
    """A kind of value."""

    def __init__(self, description: str, metavar: str = "", words: Sequence[str] = ()) -> None:
        """`description` of valid values follows "must be"; `metavar` is for --help; `words` are valid words."""
        self.description = description
        self.metavar = metavar
        self.words = words

    @abstractmethod
    def of_text(self, text: str) -> Any:
        """Read the value of a flag or a variable. WrongValueError if it is not valid."""

    @abstractmethod
    def of_toml(self, value: object, folder: Path) -> Any:
        """Read a value from a settings file in this folder. WrongValueError if it is not valid."""

    def to_toml(self, value: Any) -> str:
        """Write the value as TOML."""
        return toml_string(str(value))

    def to_text(self, value: Any) -> str:
        """Write the value as a user would type it."""
        return str(value)

    def error(self, text: str) -> WrongValueError:
        """Make the error for a value that is shown as `text`."""
        return WrongValueError(f"must be {self.description}, not {text}")


class Text(Kind):
    """A string. `accept` returns the value to keep, or None if it is not valid."""

    def __init__(self, description: str, metavar: str = "", accept: Callable[[str], str | None] = str) -> None:
        super().__init__(description, metavar)
        self._accept = accept

    def of_text(self, text: str) -> str:
        """Check the text with `accept`."""
        if (value := self._accept(text)) is None:
            raise self.error(display_text(text))
        return value

    def of_toml(self, value: object, folder: Path) -> str:
        """Check a string with `accept`; other types are wrong."""
        if type(value) is not str or (text := self._accept(value)) is None:
            raise self.error(display_toml(value))
        return text


class FilePath(Kind):
    """A path of a file or folder. In a settings file it is relative to the folder of that file."""

    def __init__(self, metavar: str = "FILE") -> None:
        super().__init__("a path", metavar)

    def of_text(self, text: str) -> Path:
        """Read a path that is relative to the working directory."""
        if not text:
            raise self.error(display_text(text))
        return Path(text)

    def of_toml(self, value: object, folder: Path) -> Path:
        """Read a string as a path; other types are wrong."""
        if type(value) is not str or not value:
            raise self.error(display_toml(value))
        return folder / value

    def to_toml(self, value: Any) -> str:
        """Write an absolute path, which names the same file from any folder."""
        return toml_string(str(Path(value).absolute()))


class Choice(Kind):
    """One of several words."""

    def __init__(self, *choices: str, metavar: str = "") -> None:
        """`metavar`: what stands for them in a line that is too short for all of them."""
        super().__init__(either(choices), metavar or "|".join(choices), choices)

    def of_text(self, text: str) -> str:
        """Read one of the words."""
        if text not in self.words:
            raise self.error(display_text(text))
        return text

    def of_toml(self, value: object, folder: Path) -> str:
        """Read one of the words."""
        if value not in self.words:
            raise self.error(display_toml(value))
        return str(value)


class Number(Kind):
    """A number within bounds, or `word` instead of one."""

    kind: type[int] | type[float] = float
    name = "a number"

    def __init__(
        self, least: float, most: float | None = None, metavar: str = "", word: str | None = None, unit: str = ""
    ) -> None:
        name = f"{self.name} of {unit}" if unit else self.name
        bounds = f"{least:.10g} or more" if most is None else f"{name} from {least:.10g} to {most:.10g}"
        super().__init__(f"{bounds}, or '{word}'" if word else bounds, metavar, (word,) if word else ())
        self._least, self._most = least, most

    def of_text(self, text: str) -> Any:
        """Read a number in Python's notation, and check its bounds."""
        if text in self.words:
            return text
        try:
            value = self.kind(text)
        except ValueError:
            value = None
        if not self._fits(value):
            raise self.error(display_text(text))
        return value

    def of_toml(self, value: Any, folder: Path) -> Any:
        """Check a number's type and bounds. A whole number is fine where fractions are allowed."""
        if value in self.words:
            return value
        types = (int,) if self.kind is int else (int, float)
        if type(value) not in types or not self._fits(value):
            raise self.error(display_toml(value))
        return self.kind(value)

    def to_toml(self, value: Any) -> str:
        """Write a number, or the word as a string."""
        return toml_string(value) if value in self.words else self.to_text(value)

    def to_text(self, value: Any) -> str:
        """Write the number with no more digits than it needs."""
        short = f"{value:.10g}" if isinstance(value, float) else str(value)
        return short if value in self.words or value == self.kind(short) else repr(value)

    def _fits(self, value: Any) -> bool:
        # NaN fails the comparison.
        return value is not None and value >= self._least and (self._most is None or value <= self._most)


class Whole(Number):
    """A whole number within bounds, or `word` instead of one."""

    kind = int
    name = "a whole number"


class Instances(Kind):
    """A number of instances, or how few and how many there may be, as in 1-4."""

    def __init__(self) -> None:
        super().__init__(f"a number from 1 to {MOST_INSTANCES}, or a range such as 1-4", "N|N-M")

    def of_text(self, text: str) -> int | InstanceBounds:
        """Read a number or a range. A range of one number is that number."""
        match = _RANGE.fullmatch(text)
        fewest, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= fewest <= most <= MOST_INSTANCES:
            raise self.error(display_text(text))
        return InstanceBounds(fewest, most) if fewest < most else fewest

    def of_toml(self, value: object, folder: Path) -> int | InstanceBounds:
        """Read a number, or a range as a string."""
        if type(value) is int and 1 <= value <= MOST_INSTANCES:
            return value
        if type(value) is not str or not _RANGE.fullmatch(value):
            raise self.error(display_toml(value))
        return self.of_text(value)

    def to_toml(self, value: Any) -> str:
        """Write a number, or a range as a string."""
        return toml_string(str(value)) if isinstance(value, InstanceBounds) else str(value)


class Switch(Kind):
    """On or off."""

    ON: Final = ("true", "yes", "on", "1")
    OFF: Final = ("false", "no", "off", "0")

    def __init__(self) -> None:
        super().__init__("true or false")

    def of_text(self, text: str) -> bool:
        """Read a word for true or false."""
        if text.lower() not in (*self.ON, *self.OFF):
            raise self.error(display_text(text))
        return text.lower() in self.ON

    def of_toml(self, value: object, folder: Path) -> bool:
        """Check that the value is a boolean."""
        if type(value) is not bool:
            raise self.error(display_toml(value))
        return value

    def to_toml(self, value: Any) -> str:
        """Write true or false."""
        return self.to_text(value)

    def to_text(self, value: Any) -> str:
        """Write true or false."""
        return "true" if value else "false"


class ListOf(Kind):
    """Several values of one kind: separated by commas in text, an array in TOML."""

    def __init__(self, item: Kind) -> None:
        super().__init__(f"a list, each {item.description}", f"{item.metavar}[,…]")
        self._item = item

    def of_text(self, text: str) -> tuple[Any, ...]:
        """Read the values between the commas."""
        return tuple(self._item.of_text(part.strip()) for part in text.split(","))

    def of_toml(self, value: object, folder: Path) -> tuple[Any, ...]:
        """Read an array; other types are wrong."""
        if type(value) is not list:
            raise self.error(display_toml(value))
        return tuple(self._item.of_toml(each, folder) for each in value)

    def to_toml(self, value: Any) -> str:
        """Write an array on one line."""
        return f"[{', '.join(map(self._item.to_toml, value))}]"

    def to_text(self, value: Any) -> str:
        """Write the values with commas between them."""
        return ",".join(map(self._item.to_text, value))


PORT: Final = Whole(0, 65535, "PORT")
COUNT: Final = Whole(1, metavar="N")


def conceal_secrets(text: str) -> str:
    """Replace passwords and keys in a text."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def display_text(text: str) -> str:
    """Show text that a user typed within a sentence: numbers as they are, anything else in quotes."""
    return text if _NUMBER.fullmatch(text) else repr(_shorten(conceal_secrets(text)))


def display_toml(value: object) -> str:
    """Show a value from a settings file within a sentence, in the form that it has there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(_shorten(conceal_secrets(value)))
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    return str(value)


def toml_string(text: str) -> str:
    """Write text as a basic string of TOML."""
    # JSON uses the same escapes, but for halves of characters, which TOML cannot express.
    return json_text(text) if is_unicode(text) else json.dumps(text, ensure_ascii=False)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


# A setting: the one description from which its flag, variable, key in a file and documentation are made.

# STREAMER_ alone would not do: Kubernetes sets STREAMER_PORT if a service is called streamer.
PREFIX: Final = "STREAMER_SERVE_"


@dataclass(frozen=True)
class Setting:
    """One setting. Without a default it may have no value; `unset` says what that means."""

    name: str  # the name of the attribute
    kind: Kind
    group: str
    help: str
    default: Any = None
    unset: str = ""
    example: str = ""  # as TOML
    bare: str | None = None  # the value if the flag is given without one

    @property
    def key(self) -> str:
        """The name in a settings file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return f"--{self.key}"

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.name.upper()

    @property
    def usual(self) -> str:
        """The default, or what happens without a value, in words."""
        return self.unset if self.default in (None, ()) else self.kind.to_text(self.default)


def setting(
    kind: Kind,
    group: str,
    help: str,
    default: Any = None,
    *,
    unset: str = "",
    example: str = "",
    bare: str | None = None,
) -> Any:
    """Make a field of a class of settings. The arguments are those of Setting."""
    about = {"kind": kind, "group": group, "help": help, "unset": unset, "example": example, "bare": bare}
    return field(default=default, metadata=about)


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings of a class whose fields `setting` has made, by name and in order."""
    return {each.name: Setting(each.name, default=each.default, **each.metadata) for each in fields(kind)}


class SettingsError(Exception):
    """Settings that are not valid. The message has one sentence for the user on each line."""
