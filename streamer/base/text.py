"""Text: counts with their nouns, words joined and found in every script, text that is safe to print, likely names."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final


def counted(number: int, one: str) -> str:
    """Return a number with its noun: 0 sessions, 1 session, 2 sessions. `one`: the noun in the singular."""
    return f"{number} {noun(number, one)}"


def part_of(number: int, whole: int, one: str) -> str:
    """Return a part of a whole: 1 of 2 sessions, 1 of 1 session. `one`: the noun in the singular."""
    return f"{number} of {counted(whole, one)}"


def either(choices: Iterable[object]) -> str:
    """Return choices as words of a sentence: `a`, `a or b`, `a, b or c`. Empty if there is none."""
    words = list(map(str, choices))
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def noun(number: int, one: str) -> str:
    """Return a noun in the form for this number. All nouns here have a plural with `s`."""
    return one if number == 1 else f"{one}s"


# Joins words to text, and finds the words of a text, also in scripts without spaces.

# Kana, Chinese characters, and the marks and wide forms that stand between them.
_SPACELESS: Final = re.compile(
    "[\u3000-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003134f]"
)
# These marks belong to the word before them even after a space. Other marks may begin a word: 'tis, #1 and "so".
_CLOSING: Final = frozenset(".,;:!?…%)]}»”。、，．！？；：％）」』】》〉")
_OPENING: Final = ("Ps", "Pi")


class Place(Enum):
    """The role of a character in its text."""

    BEGINS = "begins a word"
    CONTINUES = "continues the word before it"
    BETWEEN = "stands between words"


class _After(Enum):
    """What stands before the next character."""

    SPACE = "a space, or nothing"
    LETTER = "a letter, which the next letter continues"
    OPENING = "an opening mark, which belongs to what follows"
    WHOLE = "a character that is a word of its own, and perhaps marks"


class WordReader:
    """A reader of a text, character by character, that says where words begin."""

    def __init__(self) -> None:
        self._after = _After.SPACE
        self._any = False

    def read(self, character: str) -> Place:
        """Take the next character, and return its role."""
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
    """Return whether a script without spaces has this character."""
    return _SPACELESS.match(character) is not None


def separator(before: str, after: str) -> str:
    """Return what stands between two words or texts: a space, except at a line break and in scripts without spaces.

    There is no space between a figure and such a script either.
    """
    if not before or not after or before.endswith("\n") or after.startswith("\n"):
        return ""
    if before.isascii() and after.isascii():  # all words of most streams, and quicker to see
        return " "
    last, first = _first_letter(reversed(before), before[-1]), _first_letter(after, after[0])
    if is_spaceless(last):
        return "" if is_spaceless(first) or first.isdecimal() else " "
    return "" if last.isdecimal() and is_spaceless(first) else " "


def joined(parts: Iterable[str]) -> str:
    """Return the text of these words or texts."""
    text = last = ""
    for part in parts:
        text += separator(last, part) + part
        last = part or last
    return text


def words_of(text: str) -> list[str]:
    """Return the words of a text, with their marks."""
    words: list[str] = []
    reader = WordReader()
    for character in text:
        place = reader.read(character)
        if place is Place.BEGINS:
            words.append(character)
        elif place is Place.CONTINUES:
            words[-1] += character
    return words


def columns(text: str) -> int:
    """Return the width of a text in letters. A character of a script without spaces is as wide as two letters."""
    return len(text) + len(_SPACELESS.findall(text))


def _first_letter(characters: Iterable[str], default: str) -> str:
    """Return the first letter or figure: a mark does not show the script."""
    return next(filter(str.isalnum, characters), default)


# Makes text of strangers safe to print: a terminal obeys control characters, and an editor shows text in another order.

# What moves a cursor, starts a command of the terminal or ends a line: C0, DEL, C1, and the separators of Unicode.
_CONTROLS: Final = "\x00-\x1f\x7f-\x9f\u2028\u2029"
# What nobody sees, although it changes the order or the comparison of what is seen. The two joiners are no part of it:
# scripts such as Persian and Hindi need them.
_INVISIBLE: Final = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_UNSAFE: Final = re.compile(f"[{_CONTROLS}{_INVISIBLE}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[{_CONTROLS}{_INVISIBLE}\ud800-\udfff]")
_KEPT_IN_LINES: Final = "\n\t"
_SPACE_FOR: Final = re.compile(f"[{_CONTROLS}]")


def printable(text: str) -> str:
    """Return the text as one line without characters that a terminal would obey, or that nobody sees."""
    return _UNSAFE.sub(_substitute, text)


def printable_lines(text: str) -> str:
    """Return the same of a text of several lines, which keeps its line breaks and tabs."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in _KEPT_IN_LINES else _substitute(found), text)


def is_unicode(text: str) -> bool:
    """Return whether a client's text can be sent back: JSON may name characters that do not exist in Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_text(
    value: Any,
    *,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Return a value as JSON that is safe to print: the same characters are escaped, so nothing is lost.

    So are halves of characters (`\\ud800`), which a client's JSON may name, and which no encoding of Unicode has.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, default=default)
    return _UNSAFE_IN_JSON.sub(lambda found: found[0] if found[0] == "\n" else json.dumps(found[0])[1:-1], text)


def _substitute(found: re.Match[str]) -> str:
    return " " if _SPACE_FOR.match(found[0]) else ""


# Finds the name that a user probably meant, and writes it at the end of a sentence.

QUOTED: Final = "'{}'"
# With this value, two swapped letters in a word of four are still similar: `prot` finds `port`, not `format`.
LIKENESS: Final = 0.75
# In a word of three letters, one may be wrong: `mik` finds `mic`.
SHORT: Final = 3
SHORT_LIKENESS: Final = 0.6
# The largest number of names that are suggested.
MOST: Final = 3


def as_sentence(message: object) -> str:
    """Return the message with a full stop at its end, unless it ends with a suggestion, which is a question."""
    text = str(message)
    return text if text.endswith((".", "?")) else f"{text}."


def did_you_mean_one_of(name: str, names: Iterable[str]) -> str:
    """Write the end of a sentence about an unknown name such as `zipformer-en`: names with all its parts."""
    candidates = list(names)
    parts = set(name.lower().split("-"))
    whole = [each for each in candidates if parts <= set(each.lower().split("-"))][:MOST]
    return f"; did you mean {either(whole)}?" if whole else did_you_mean(name, candidates)


def did_you_mean(name: str, names: Iterable[str], form: str = "{}") -> str:
    """Write the end of a sentence about an unknown name: "; did you mean port?". Empty if no name is similar."""
    candidates = list(names)
    # Imported only when it is needed, because the import is slow.
    from difflib import get_close_matches

    longer = [each for each in candidates if each.startswith(name)]
    similar = longer if len(longer) == 1 else get_close_matches(name, candidates, n=1, cutoff=LIKENESS)
    if not similar and len(name) == SHORT:
        short = [each for each in candidates if len(each) == SHORT]
        similar = get_close_matches(name, short, n=1, cutoff=SHORT_LIKENESS)
    return f"; did you mean {form.format(similar[0])}?" if similar else ""
