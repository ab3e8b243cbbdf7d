"""Joins words to text, and finds the words of a text, also in scripts without spaces. Pure.

Chinese and Japanese are written without spaces, so each of their characters counts as a word. Everything that joins
words or segments does it here (the page in `web/page/transcript/joining.js`), so a text is the same everywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final

# Kana, Chinese characters, and the marks and wide forms that stand between them.
_SPACELESS: Final = re.compile(
    "[\u3000-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003134f]"
)
# After a space, these marks still belong to the word before. Others may begin a word, as in 'tis, #1 and "so".
_CLOSING: Final = frozenset(".,;:!?…%)]}»”。、，．！？；：％）」』】》〉")
_OPENING: Final = ("Ps", "Pi")


class Place(Enum):
    """What a character is in its text."""

    BEGINS = "begins a word"
    CONTINUES = "continues the word before it"
    BETWEEN = "stands between words"


class _After(Enum):
    """What the next character comes after."""

    SPACE = "a space, or nothing"
    LETTER = "a letter, which the next letter continues"
    OPENING = "an opening mark, which belongs to what follows"
    WHOLE = "a character that is a word of its own, and perhaps marks"


class WordReader:
    """Reads a text character by character."""

    def __init__(self) -> None:
        self._after = _After.SPACE
        self._any = False

    def read(self, character: str) -> Place:
        """What the next character is."""
        if character.isspace():
            self._after = _After.SPACE
            return Place.BETWEEN
        place = self._place(character)
        self._any = True
        return place

    def _place(self, character: str) -> Place:
        after, kind = self._after, unicodedata.category(character)
        spaceless = is_spaceless(character)
        if kind in _OPENING and (after is not _After.LETTER or spaceless):
            self._after = _After.OPENING
            return Place.CONTINUES if after is _After.OPENING else Place.BEGINS
        if kind[0] in "PM":
            if after is not _After.SPACE:
                return Place.CONTINUES
            if self._any and character in _CLOSING:
                return Place.CONTINUES
            self._after = _After.LETTER
            return Place.BEGINS
        self._after = _After.WHOLE if spaceless else _After.LETTER
        continues = after is _After.OPENING or (after is _After.LETTER and not spaceless)
        return Place.CONTINUES if continues else Place.BEGINS


def is_spaceless(character: str) -> bool:
    """Whether no space stands between this character and others like it."""
    return _SPACELESS.match(character) is not None


def separator(before: str, after: str) -> str:
    """What stands between two words, or two texts: a space, except beside a line break and in scripts without spaces.

    A figure beside such a script has no space either.
    """
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    last, first = _outermost(reversed(before), before[-1]), _outermost(after, after[0])
    if is_spaceless(last):
        return "" if is_spaceless(first) or first.isdecimal() else " "
    return "" if last.isdecimal() and is_spaceless(first) else " "


def joined(parts: Iterable[str]) -> str:
    """The text of these words, or texts."""
    text = last = ""
    for part in parts:
        text += separator(last, part) + part
        last = part or last
    return text


def words_of(text: str) -> list[str]:
    """The words of a text, with their marks."""
    found: list[str] = []
    reader = WordReader()
    for character in text:
        place = reader.read(character)
        if place is Place.BEGINS:
            found.append(character)
        elif place is Place.CONTINUES:
            found[-1] += character
    return found


def columns(text: str) -> int:
    """The width of a text in letters. A character without spaces is as wide as two letters, and is read as slowly."""
    return len(text) + len(_SPACELESS.findall(text))


def _outermost(characters: Iterable[str], otherwise: str) -> str:
    """The first letter or figure, because marks belong to any script."""
    return next(filter(str.isalnum, characters), otherwise)
