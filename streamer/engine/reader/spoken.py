"""The words that were spoken, from text as a reader writes it: with figures, titles, signs and marks.

This is the reverse of the written form (`streamer/engine/text/`). Where a figure can be spoken in several ways, it
takes the usual one: a year in two halves, other numbers in full.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_UNITS: Final = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = _listed("_ _ twenty thirty forty fifty sixty seventy eighty ninety")
_SHORTENED: Final = frozenset(_listed("'bout 'cause 'em 'neath 'round 'til 'tis 'twas 'twere 'twill 'twould"))
_SCALES: Final = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (10**3, "thousand"))
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_TITLES: Final = {
    "mr.": "mister",
    "mrs.": "missus",
    "dr.": "doctor",
    "st.": "saint",
    "mr": "mister",
    "mrs": "missus",
    "vs.": "versus",
    "&": "and",
    "+": "plus",
    "=": "equals",
    "@": "at",
}
_CURRENCIES: Final = {
    "$": ("dollar", "dollars"),
    "\u00a3": ("pound", "pounds"),
    "\u20ac": ("euro", "euros"),
    "\u20b9": ("rupee", "rupees"),
    "\u00a5": ("yen", "yen"),
}
_APOSTROPHES: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4\u0060\uff07", "'"))
_PART: Final = re.compile(
    r"(?P<money>[$\u00a3\u20ac\u20b9\u00a5])?(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?P<fraction>\.\d+)?"
    r"(?::(?P<minutes>[0-5]\d)(?!\d))?(?P<ending>st\b|nd\b|rd\b|th\b|s\b|'s\b)?(?P<percent>\s?%)?"
    r"|(?P<word>[^\W\d_]+(?:'[^\W\d_]+)*'?|'[^\W\d_]+)"
)
_LONGEST: Final = 15  # digits; longer runs are spelled
_FIRST_YEAR, _LAST_YEAR, _TWO_THOUSANDS = 1_100, 2_099, range(2_000, 2_010)


class SpokenToken(NamedTuple):
    """A part of a text between spaces, and the words that were spoken for it, in lower case. There may be none."""

    written: str
    words: tuple[str, ...]


def spoken_tokens(text: str) -> list[SpokenToken]:
    """Return the parts of a text between spaces with their words."""
    return [SpokenToken(written, tuple(_words(written))) for written in text.split()]


def spoken_words(text: str) -> list[str]:
    """Return the words that were spoken."""
    return [word for token in spoken_tokens(text) for word in token.words]


def _words(written: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", written.translate(_APOSTROPHES)).lower()
    title = _TITLES.get(plain.strip("\"'(),;:!?")) or _TITLES.get(plain)
    if title:
        yield title
        return
    for part in _PART.finditer(plain):
        yield from [_unquoted(part["word"])] if part["word"] else _figure(part)


def _unquoted(word: str) -> str:
    """Return a word without apostrophes that quote it. Those of 'tis and dogs' belong to the word."""
    if word.startswith("'") and word not in _SHORTENED:
        return word.strip("'")
    return word if word.endswith("s'") else word.rstrip("'")


def _figure(part: re.Match[str]) -> Iterator[str]:
    digits = part["number"].replace(",", "")
    if part["minutes"]:
        yield from _time(int(digits), int(part["minutes"]))
    elif part["fraction"] and not (part["money"] and len(part["fraction"]) == 3):
        yield from _cardinal(int(digits))
        yield "point"
        yield from (_UNITS[int(digit)] for digit in part["fraction"][1:])
    else:
        yield from _whole(part, digits)
    if part["money"]:
        one, several = _CURRENCIES[part["money"]]
        yield one if digits == "1" and not part["fraction"] else several
        if part["fraction"] and len(part["fraction"]) == 3 and int(part["fraction"][1:]):
            yield from _cardinal(int(part["fraction"][1:]))
    if part["percent"]:
        yield "percent"


def _whole(part: re.Match[str], digits: str) -> Iterator[str]:
    value, ending = int(digits), part["ending"]
    if len(digits) > _LONGEST or (digits.startswith("0") and len(digits) > 1):
        words = [_UNITS[int(digit)] for digit in digits]
    elif _FIRST_YEAR <= value <= _LAST_YEAR and value not in _TWO_THOUSANDS and not part["money"] and len(digits) == 4:
        words = list(_year(value) if "," not in part["number"] else _cardinal(value))
    else:
        words = list(_cardinal(value))
    if ending in ("st", "nd", "rd", "th"):
        words[-1] = _ordinal(words[-1])
    elif ending == "s":
        words[-1] = f"{words[-1][:-1]}ies" if words[-1].endswith("y") else f"{words[-1]}s"
    elif ending:
        words[-1] += "'s"
    yield from words


def _time(hour: int, minute: int) -> Iterator[str]:
    yield from _cardinal(hour)
    if minute:
        yield from ["oh"] if minute < 10 else []
        yield from _cardinal(minute)


def _year(value: int) -> Iterator[str]:
    century, rest = divmod(value, 100)
    yield from _cardinal(century)
    if not rest:
        yield "hundred"
        return
    yield from ["oh"] if rest < 10 else []
    yield from _cardinal(rest)


def _cardinal(value: int) -> Iterator[str]:
    for size, name in _SCALES:
        if value >= size:
            yield from _cardinal(value // size)
            yield name
            value %= size
            if not value:
                return
    if value >= 100:
        yield from (_UNITS[value // 100], "hundred")
        value %= 100
        if not value:
            return
    if value < len(_UNITS):
        yield _UNITS[value]
        return
    yield _TENS[value // 10]
    if value % 10:
        yield _UNITS[value % 10]


def _ordinal(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"
