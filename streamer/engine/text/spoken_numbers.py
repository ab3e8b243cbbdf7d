"""Reads spoken English numbers: cardinals, ordinals, decimals, years and runs of digits.

All functions read the words only through `TrackedWords.at`, which records the last position. Words after that position
cannot change the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def _numbered(words: str, first: int, step: int = 1) -> dict[str, int]:
    return {word: first + step * index for index, word in enumerate(words.split())}


DIGITS = _numbered("zero one two three four five six seven eight nine", 0)
_OH = {"oh": 0, "o": 0}
_DIGITS_AND_OH = {**DIGITS, **_OH}
_UNITS = {word: value for word, value in DIGITS.items() if value}
_TEENS = _numbered("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen", 10)
_TENS = _numbered("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_DECADES = {f"{word[:-1]}ies": value for word, value in _TENS.items()}
_UNIT_ORDINALS = _numbered("first second third fourth fifth sixth seventh eighth ninth", 1)
_ORDINALS = {
    **_UNIT_ORDINALS,
    **{f"{word}th": value for word, value in _TEENS.items() if value != 12},
    "twelfth": 12,
    **{f"{word[:-1]}ieth": value for word, value in _TENS.items()},
    **{f"{ten}-{unit}": tens + value for ten, tens in _TENS.items() for unit, value in _UNIT_ORDINALS.items()},
}
_CARDINALS = {
    **_UNITS,
    **_TEENS,
    **_TENS,
    **{f"{ten}-{unit}": tens + value for ten, tens in _TENS.items() for unit, value in _UNITS.items()},
}
_HUNDRED = {"hundred": False, "hundredth": True}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SCALE_ORDINALS = {f"{word}th": value for word, value in _SCALES.items()}
_NAMED = tuple((word, value) for word, value in reversed(_SCALES.items()) if value > 1000)
MULTIPLIERS = frozenset({*_HUNDRED, *_SCALES, *_SCALE_ORDINALS})
BEGINNINGS = frozenset({*DIGITS, *_CARDINALS, *_ORDINALS})
REPEATS = {"double": 2, "triple": 3}

LONGEST_RUN = 20  # longer dictated numbers are written as several, so that partial results settle in time
_LONGEST_FRACTION = 12
_GROUPED_FROM = 10_000  # digits are grouped from this number on; in smaller ones, years would be split ("2,005")


class TrackedWords:
    """Words that are read by position. `furthest` is the greatest position so far."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word.lower().replace("\u2019", "'") for word in words]
        self.furthest = -1

    def at(self, position: int) -> str:
        """Return the word at this position in lower case; "" after the last word."""
        self.furthest = max(self.furthest, position)
        return self._words[position] if position < len(self._words) else ""


@dataclass(frozen=True)
class Number:
    """A number, the position after its last word, and its figures in `text`."""

    value: int
    end: int
    text: str
    ordinal: bool = False


def number(words: TrackedWords, at: int) -> Number | None:
    """Return the longest cardinal, ordinal or decimal that begins here. "a" means one before words like "hundred"."""
    whole = integer(words, at)
    if whole is None or whole.ordinal or words.at(whole.end) != "point":
        return whole
    fraction, end = _fraction(words, whole.end + 1)
    if not fraction:
        return whole
    text = f"{whole.text}.{fraction}"
    if words.at(end) in _SCALES:
        text, end = f"{text} {words.at(end)}", end + 1
    return Number(whole.value, end, text)


def integer(words: TrackedWords, at: int) -> Number | None:
    """Return the longest cardinal or ordinal that begins here."""
    if words.at(at) == "zero":
        return Number(0, at + 1, "0")
    group = _Group(1, at + 1) if words.at(at) == "a" and words.at(at + 1) in _SCALES else _group(words, at)
    if group is None:
        return None
    total, bound = 0, 10**15
    while True:
        word = words.at(group.end)
        scale = 0 if group.ordinal else _SCALES.get(word, 0) or _SCALE_ORDINALS.get(word, 0)
        if not scale:
            return _number(total + group.value, group.end, group.ordinal)
        total, end, bound = total + group.value * scale, group.end + 1, scale
        if word in _SCALE_ORDINALS:
            return _number(total, end, True)
        following = _remainder(words, end, bound)
        if following is None:
            return _number(total, end)
        group = following


def year(words: TrackedWords, at: int, earliest: int = 16) -> Number | None:
    """Return a year or decade in two halves ("nineteen eighty four"), if the first half is at least `earliest`."""
    word = words.at(at)
    century = _TEENS.get(word, 0) or (20 if word == "twenty" else 0)
    if century < earliest:
        return None
    if words.at(at + 1) in _DECADES:
        value = century * 100 + _DECADES[words.at(at + 1)]
        return Number(value, at + 2, f"{value}s")
    half = minutes(words, at + 1)
    if half is None or words.at(half.end) in MULTIPLIERS:
        return None
    value = century * 100 + half.value
    return Number(value, half.end, str(value))


def minutes(words: TrackedWords, at: int) -> Number | None:
    """Return two figures as the second half of a year or time: "thirty", "forty five", "oh five"."""
    if words.at(at) in _OH:
        unit = _UNITS.get(words.at(at + 1))
        return None if unit is None else Number(unit, at + 2, f"0{unit}")
    half = _below_hundred(words, at)
    if half is None or half.ordinal or half.value < 10:
        return None
    return Number(half.value, half.end, str(half.value))


def digits(words: TrackedWords, at: int) -> Number | None:
    """Return three or more single digits in a row. If somebody counts, their figures are separated by spaces."""
    figures: list[int] = []
    end = at
    while len(figures) < LONGEST_RUN:
        word = words.at(end)
        repeats = REPEATS.get(word, 1)
        last = end + (repeats > 1)
        digit = _DIGITS_AND_OH.get(words.at(last))
        if digit is None:
            break
        following = words.at(last + 1)
        if following in MULTIPLIERS or following == "point":
            break  # the digit begins another number
        # "oh" may also be an exclamation.
        if word in _OH and following not in _DIGITS_AND_OH and len(figures) < 4:
            break
        figures += [digit] * repeats
        end = last + 1
    if len(figures) < (5 if words.at(at) in _OH else 3):
        return None
    steps = {later - earlier for earlier, later in pairwise(figures)}
    counting = steps in ({1}, {-1})
    return Number(0, end, (" " if counting else "").join(map(str, figures)))


def with_suffix(value: int) -> str:
    """Return an ordinal in figures, such as 21st."""
    suffix = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{_grouped(value)}{suffix}"


@dataclass(frozen=True)
class _Group:
    """A number below a thousand, and the position after it."""

    value: int
    end: int
    ordinal: bool = False


def _group(words: TrackedWords, at: int) -> _Group | None:
    article = words.at(at) == "a" and words.at(at + 1) in _HUNDRED
    group = _Group(1, at + 1) if article else _below_hundred(words, at)
    hundred = _HUNDRED.get(words.at(group.end)) if group and not group.ordinal else None
    # People say "twenty five hundred", but not "twenty hundred".
    if group is None or hundred is None or group.value % 10 == 0:
        return group
    value, end = group.value * 100, group.end + 1
    if hundred:
        return _Group(value, end, True)
    with_and = words.at(end) == "and"
    rest = _below_hundred(words, end + with_and)
    if rest is None or words.at(rest.end) in _HUNDRED:
        return _Group(value, end)
    # "Eight hundred five five five": a number and then digits.
    if not with_and and rest.value < 10 and not rest.ordinal and words.at(rest.end) in _DIGITS_AND_OH:
        return _Group(value, end)
    return _Group(value + rest.value, rest.end, rest.ordinal)


def _remainder(words: TrackedWords, at: int, bound: int) -> _Group | None:
    """Return the group that continues a number after a scale such as thousand."""
    with_and = words.at(at) == "and"
    group = _below_hundred(words, at + 1) if with_and else _group(words, at)
    if group is None or (words.at(at) == "a" and not with_and):
        return None
    following = words.at(group.end)
    scale = _SCALES.get(following, 0) or _SCALE_ORDINALS.get(following, 0)
    if scale >= bound or (with_and and following in _HUNDRED):
        return None
    return group


def _below_hundred(words: TrackedWords, at: int) -> _Group | None:
    word = words.at(at)
    if word in _TENS:
        following = words.at(at + 1)
        if following in _UNITS:
            return _Group(_TENS[word] + _UNITS[following], at + 2)
        if following in _UNIT_ORDINALS:
            return _Group(_TENS[word] + _UNIT_ORDINALS[following], at + 2, True)
    if word in _CARDINALS:
        return _Group(_CARDINALS[word], at + 1)
    return _Group(_ORDINALS[word], at + 1, True) if word in _ORDINALS else None


def _fraction(words: TrackedWords, at: int) -> tuple[str, int]:
    """Return the figures after a decimal point: single digits, or one number of two figures."""
    pair = minutes(words, at) if words.at(at) not in _OH else None
    if pair is not None:
        return pair.text, pair.end
    figures = ""
    while len(figures) < _LONGEST_FRACTION:
        digit = _DIGITS_AND_OH.get(words.at(at + len(figures)))
        if digit is None:
            break
        figures += str(digit)
    return figures, at + len(figures)


def _number(value: int, end: int, ordinal: bool = False) -> Number:
    if ordinal:
        return Number(value, end, with_suffix(value), True)
    for word, scale in _NAMED:
        if value >= scale:
            named = value % scale == 0 and value < 1000 * scale
            return Number(value, end, f"{value // scale} {word}" if named else _grouped(value))
    return Number(value, end, _grouped(value))


def _grouped(value: int) -> str:
    return f"{value:,}" if value >= _GROUPED_FROM else str(value)
