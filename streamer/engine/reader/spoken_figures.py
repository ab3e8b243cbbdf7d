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
_LARGE_MONEY: Final = re.compile(r"([$£€])(\d[\d,.]*) (hundred|thousand|million|billion|trillion)", re.IGNORECASE)


def spoken_figures(text: str) -> list[Words]:
    """Return the ways to say a text that is made of figures, likeliest first; none if it is not."""
    if time := _TIME.fullmatch(text):
        return _times(int(time[1]), time[2])
    if large := _LARGE_MONEY.fullmatch(text):
        money = large[3].lower(), f"{_CURRENCIES[large[1]][0]}s"
        return [(*way, *money) for way in spoken_figures(large[2])]
    match = _FIGURES.fullmatch(text)
    if match is None:
        return []
    digits, part = match["whole"].replace(",", ""), match["part"]
    if sign := match["currency"]:
        return [way for whole in _wholes(digits, grouped=True) for way in _money(whole, digits, part, sign)]
    ways = _wholes(digits, grouped="," in match["whole"])
    if part is not None:
        ways = [(*way, "point", *_one_by_one(part)) for way in ways]
    after = (match["after"] or "").lower()
    if after in _UNITS:
        return [(*way, _UNITS[after]) for way in ways]
    if after.endswith("s") and after != "st":
        return [(*way[:-1], _plural(way[-1])) for way in ways]
    if after:
        numbers = _numbers(int(digits)) if len(digits) <= MOST_DIGITS else []
        return [(*way[:-1], _ordinal(way[-1])) for way in numbers]
    return ways


def _wholes(digits: str, *, grouped: bool) -> list[Words]:
    """Return the ways to say a whole number: as a number, in pairs such as years, and digit by digit.

    `grouped`: it is certainly an amount, as with commas. Amounts are not said digit by digit.
    """
    single = _one_by_one(digits)
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and len(digits) > 1):
        oh = tuple("oh" if word == "zero" else word for word in single)
        return [single, oh, *([("double", *oh[1:])] if oh[0] == oh[1] else [])]
    ways = _numbers(int(digits))
    if len(digits) == 1:
        return ways
    if len(digits) == 4 and digits[1:3] != "00":
        if not grouped:
            ways.insert(0, _pairs(digits))
        elif digits[2:] == "00":
            ways.append(_pairs(digits))
    elif len(digits) == 3 and not grouped:
        ways.append((*_cardinal(int(digits[0])), *_pair(digits[1:])))
    return ways if grouped else [*ways, single]


def _numbers(number: int) -> list[Words]:
    """Return the ways to say a number: one hundred one, one hundred and one, a hundred one, a hundred and one."""
    ways = [_cardinal(number)]
    if number > 100 and number % 100:
        last = _cardinal(number % 100)
        ways.append((*ways[0][: -len(last)], "and", *last))
    if ways[0][0] == "one" and len(ways[0]) > 1:
        ways += [("a", *way[1:]) for way in ways]
    return ways


def _pairs(digits: str) -> Words:
    first = _cardinal(int(digits[:2]))
    return (*first, "hundred") if digits[2:] == "00" else (*first, *_pair(digits[2:]))


def _pair(digits: str) -> Words:
    return ("oh", *_cardinal(int(digits[1]))) if digits[0] == "0" else _cardinal(int(digits))


def _times(hour: int, minutes: str) -> list[Words]:
    if minutes == "00":
        return [(*_cardinal(hour), "o'clock"), _cardinal(hour)]
    return [(*_cardinal(hour), *_pair(minutes))]


def _money(way: Words, digits: str, part: str | None, sign: str) -> list[Words]:
    """Return the ways to say an amount of money whose whole units are said in this way."""
    name, small = _CURRENCIES[sign]
    money = (*way, name if int(digits) == 1 else f"{name}s")
    if part is None or not int(part):
        return [money]
    if len(part) != 2:
        return [(*way, "point", *_one_by_one(part), f"{name}s")]
    cents = _cardinal(int(part))
    unit = small if int(part) == 1 else "pence" if small == "penny" else f"{small}s"
    if not int(digits):
        return [(*cents, unit)]
    return [(*money, "and", *cents, unit), (*money, *cents, unit), (*money, *cents), (*way, *cents)]


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
