"""The spoken words of written figures, the inverse of `streamer/engine/text/figures.py`: 1984, $5.50, 20th, 10:30."""

from __future__ import annotations

import re
from typing import Final

Words = tuple[str, ...]

MOST_DIGITS: Final = 15  # of a number; longer ones are said digit by digit
_ONES: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = ("", "thousand", "million", "billion", "trillion")
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_CURRENCIES: Final = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent")}
_UNITS: Final = {"%": "percent", "°": "degrees"}
_FIGURES: Final = re.compile(
    r"(?P<currency>[$£€])?(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<part>\d+))?(?P<after>st|nd|rd|th|'?s|%|°)?",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"(\d{1,2}):(\d{2})")


def spoken_figures(text: str) -> list[Words]:
    """Return the ways to say a text that is made of figures, likeliest first; none if it is not."""
    if time := _TIME.fullmatch(text):
        return _times(int(time[1]), time[2])
    match = _FIGURES.fullmatch(text)
    if match is None:
        return []
    digits, part = match["whole"].replace(",", ""), match["part"]
    ways = _wholes(digits, grouped="," in match["whole"])
    if match["currency"]:
        return [_money(way, digits, part, match["currency"]) for way in ways]
    if part is not None:
        ways = [(*way, "point", *_one_by_one(part)) for way in ways]
    after = (match["after"] or "").lower()
    if after in _UNITS:
        return [(*way, _UNITS[after]) for way in ways]
    if after.endswith("s") and after != "st":
        return [(*way[:-1], _plural(way[-1])) for way in ways]
    if after:
        return [(*way[:-1], _ordinal(way[-1])) for way in [_cardinal(int(digits)), *ways]][:1]
    return ways


def _wholes(digits: str, *, grouped: bool) -> list[Words]:
    """Return the ways to say a whole number: as a number, in pairs such as years, and digit by digit."""
    single = _one_by_one(digits)
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and len(digits) > 1):
        return [single, tuple("oh" if word == "zero" else word for word in single)]
    number = _cardinal(int(digits))
    if grouped or len(digits) == 1:
        return [number]
    ways = [number]
    if len(digits) == 4 and digits[1:3] != "00":
        ways.insert(0, _pairs(digits))
    elif len(digits) == 3:
        ways.append((*_cardinal(int(digits[0])), *_pair(digits[1:])))
    if "hundred" in number:  # a hundred and one
        place = len(number) - 1 - number[::-1].index("hundred")
        if place + 1 < len(number):
            ways.append((*number[: place + 1], "and", *number[place + 1 :]))
    if number[:2] == ("one", "hundred") or number[:2] == ("one", "thousand"):
        ways.append(("a", *number[1:]))
    return [*ways, single]


def _pairs(digits: str) -> Words:
    first = _cardinal(int(digits[:2]))
    return (*first, "hundred") if digits[2:] == "00" else (*first, *_pair(digits[2:]))


def _pair(digits: str) -> Words:
    return ("oh", *_cardinal(int(digits[1]))) if digits[0] == "0" else _cardinal(int(digits))


def _times(hour: int, minutes: str) -> list[Words]:
    if minutes == "00":
        return [(*_cardinal(hour), "o'clock"), _cardinal(hour)]
    return [(*_cardinal(hour), *_pair(minutes))]


def _money(way: Words, digits: str, part: str | None, sign: str) -> Words:
    name, small = _CURRENCIES[sign]
    money = (*way, name if int(digits) == 1 else f"{name}s")
    if part is None or not int(part):
        return money
    if len(part) != 2:
        return (*way, "point", *_one_by_one(part), f"{name}s")
    cents = "pence" if small == "penny" else small if int(part) == 1 else f"{small}s"
    return (*money, "and", *_cardinal(int(part)), cents)


def _one_by_one(digits: str) -> Words:
    return tuple(_ONES[int(digit)] for digit in digits)


def _cardinal(number: int) -> Words:
    if number < 20:
        return (_ONES[number],)
    words: list[str] = []
    for place in range(len(_SCALES) - 1, -1, -1):
        group = number // 1000**place % 1000
        if not group:
            continue
        if group >= 100:
            words += [_ONES[group // 100], "hundred"]
        if group % 100 >= 20:
            words.append(_TENS[group % 100 // 10])
            if group % 10:
                words.append(_ONES[group % 10])
        elif group % 100:
            words.append(_ONES[group % 100])
        if place:
            words.append(_SCALES[place])
    return tuple(words)


def _ordinal(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return f"{word[:-1]}ieth" if word.endswith("y") else f"{word}th"


def _plural(word: str) -> str:
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"
