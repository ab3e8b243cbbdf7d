"""The kinds of values that settings have: each is read from text or from TOML, and written as TOML.

Arguments of other commands are read by the same rules, so that a port is a port everywhere.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

LONGEST_SHOWN: Final = 80
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
# A password in an address, and an API key of ours where a file was asked for.
_SECRETS: Final = ((re.compile(r"://[^/@\s]*@"), "://…@"), (re.compile(r"\bstreamer_[\w-]{20,}"), "streamer_…"))


class WrongValueError(ValueError):
    """A value that cannot be: the message follows the name of the setting, as "must be 1 or more, not 0"."""


class Kind(ABC):
    """What a value is."""

    def __init__(self, right: str, metavar: str = "", words: Sequence[str] = ()) -> None:
        """`right` follows "must be"; `metavar` stands for a value in --help; `words` are values that have a name."""
        self.right = right
        self.metavar = metavar
        self.words = words

    @abstractmethod
    def of_text(self, text: str) -> Any:
        """The value that a flag or a variable has; WrongValueError if it is none."""

    @abstractmethod
    def of_toml(self, value: object, folder: Path) -> Any:
        """The value that a file in this folder has; WrongValueError if it is none."""

    def to_toml(self, value: Any) -> str:
        """The value as TOML."""
        return toml_string(str(value))

    def to_text(self, value: Any) -> str:
        """The value as one would type it."""
        return str(value)

    def wrong(self, met: str) -> WrongValueError:
        """For a value of this form."""
        return WrongValueError(f"must be {self.right}, not {met}")


class Text(Kind):
    """A string; `accept` gives what to keep of it, or None if it is wrong."""

    def __init__(self, right: str, metavar: str = "", accept: Callable[[str], str | None] = str) -> None:
        super().__init__(right, metavar)
        self._accept = accept

    def of_text(self, text: str) -> str:
        """As it is, if it is accepted."""
        if (value := self._accept(text)) is None:
            raise self.wrong(shown_text(text))
        return value

    def of_toml(self, value: object, folder: Path) -> str:
        """Nothing but a string."""
        if type(value) is not str or (kept := self._accept(value)) is None:
            raise self.wrong(shown_toml(value))
        return kept


class FilePath(Kind):
    """A file or folder. In a settings file it is relative to the folder of that file."""

    def __init__(self, metavar: str = "FILE") -> None:
        super().__init__("a path", metavar)

    def of_text(self, text: str) -> Path:
        """Relative to the working directory."""
        if not text:
            raise self.wrong(shown_text(text))
        return Path(text)

    def of_toml(self, value: object, folder: Path) -> Path:
        """Nothing but a string."""
        if type(value) is not str or not value:
            raise self.wrong(shown_toml(value))
        return folder / value

    def to_toml(self, value: Any) -> str:
        """Absolute: it names the same file wherever it is written to."""
        return toml_string(str(Path(value).absolute()))


class Choice(Kind):
    """One of some words."""

    def __init__(self, *choices: str) -> None:
        super().__init__(f"{', '.join(choices[:-1])} or {choices[-1]}", "|".join(choices), choices)

    def of_text(self, text: str) -> str:
        """Exactly one of them."""
        if text not in self.words:
            raise self.wrong(shown_text(text))
        return text

    def of_toml(self, value: object, folder: Path) -> str:
        """Exactly one of them."""
        if value not in self.words:
            raise self.wrong(shown_toml(value))
        return str(value)


class Number(Kind):
    """A number within bounds; `word` may stand in its place."""

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
        """A number as Python writes it, within the bounds."""
        if text in self.words:
            return text
        try:
            value = self.kind(text)
        except ValueError:
            value = None
        if not self._fits(value):
            raise self.wrong(shown_text(text))
        return value

    def of_toml(self, value: Any, folder: Path) -> Any:
        """A number within the bounds; where fractions are allowed a whole one is as good."""
        if value in self.words:
            return value
        allowed = (int,) if self.kind is int else (int, float)
        if type(value) not in allowed or not self._fits(value):
            raise self.wrong(shown_toml(value))
        return self.kind(value)

    def to_toml(self, value: Any) -> str:
        """A number, or the word as a string."""
        return toml_string(value) if value in self.words else self.to_text(value)

    def to_text(self, value: Any) -> str:
        """Without more digits than it needs."""
        short = f"{value:.10g}" if isinstance(value, float) else str(value)
        return short if value in self.words or value == self.kind(short) else repr(value)

    def _fits(self, value: Any) -> bool:
        # What is no number compares as false.
        return value is not None and value >= self._least and (self._most is None or value <= self._most)


class Whole(Number):
    """A whole number within bounds; `word` may stand in its place."""

    kind = int
    name = "a whole number"


class Switch(Kind):
    """On or off."""

    ON: Final = ("true", "yes", "on", "1")
    OFF: Final = ("false", "no", "off", "0")

    def __init__(self) -> None:
        super().__init__("true or false")

    def of_text(self, text: str) -> bool:
        """A word for yes or no."""
        if text.lower() not in (*self.ON, *self.OFF):
            raise self.wrong(shown_text(text))
        return text.lower() in self.ON

    def of_toml(self, value: object, folder: Path) -> bool:
        """Nothing but a boolean."""
        if type(value) is not bool:
            raise self.wrong(shown_toml(value))
        return value

    def to_toml(self, value: Any) -> str:
        """As TOML has it."""
        return self.to_text(value)

    def to_text(self, value: Any) -> str:
        """As one would type it."""
        return "true" if value else "false"


class ListOf(Kind):
    """Several of a kind: commas between them in text, an array in TOML."""

    def __init__(self, item: Kind) -> None:
        super().__init__(f"a list, each {item.right}", f"{item.metavar}[,…]")
        self._item = item

    def of_text(self, text: str) -> tuple[Any, ...]:
        """What stands between the commas."""
        return tuple(self._item.of_text(part.strip()) for part in text.split(","))

    def of_toml(self, value: object, folder: Path) -> tuple[Any, ...]:
        """Nothing but an array."""
        if type(value) is not list:
            raise self.wrong(shown_toml(value))
        return tuple(self._item.of_toml(each, folder) for each in value)

    def to_toml(self, value: Any) -> str:
        """An array in one line."""
        return f"[{', '.join(map(self._item.to_toml, value))}]"

    def to_text(self, value: Any) -> str:
        """With commas."""
        return ",".join(map(self._item.to_text, value))


PORT: Final = Whole(0, 65535, "PORT")
COUNT: Final = Whole(1, metavar="N")


def concealed(text: str) -> str:
    """The text without the passwords and keys that may be in it."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def shown_text(text: str) -> str:
    """Text that somebody typed, in a sentence: numbers as they are, the rest in quotes."""
    return text if _NUMBER.fullmatch(text) else repr(_short(concealed(text)))


def shown_toml(value: object) -> str:
    """A value of a file, in a sentence: in the form that it has there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(_short(concealed(value)))
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    return str(value)


def toml_string(text: str) -> str:
    """Text as a basic string of TOML."""
    # JSON has the same escapes, but leaves one control character as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
