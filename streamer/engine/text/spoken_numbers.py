"""Spoken English numbers read off a tape of words: cardinals, ordinals, decimals, years and runs of digits.

All look at words only through `WordReader.at`, which notes how far they looked: what was read so far cannot change with
words behind that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def _numbered(words: str, first: int, step: int = 1) -> dict[str, int]:
    return {word: first + step * place for place, word in enumerate(words.split())}


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
_REPEATS = {"double": 2, "triple": 3}

# Whoever dictates a longer number than these is written in several pieces: partials must settle some day.
LONGEST_RUN = 20
_LONGEST_FRACTION = 12
# From here on digits are grouped: below it would part years ("2,005").
_GROUPED_FROM = 10_000


class WordReader:
    """Words to be read by their numbers; remembers how far anybody looked."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word.lower().replace("\u2019", "'") for word in words]
        self.furthest = -1

    def at(self, position: int) -> str:
        """The word there in lower case, empty behind the last."""
        self.furthest = max(self.furthest, position)
        return self._words[position] if position < len(self._words) else ""


@dataclass(frozen=True)
class Number:
    """A number and the position behind its last word; `text` is its figures."""

    value: int
    end: int
    text: str
    ordinal: bool = False


def number(tape: WordReader, at: int) -> Number | None:
    """The longest cardinal, ordinal or decimal that begins here; "a" counts as one before a hundred and the like."""
    whole = integer(tape, at)
    if whole is None or whole.ordinal or tape.at(whole.end) != "point":
        return whole
    fraction, end = _fraction(tape, whole.end + 1)
    if not fraction:
        return whole
    text = f"{whole.text}.{fraction}"
    if tape.at(end) in _SCALES:
        text, end = f"{text} {tape.at(end)}", end + 1
    return Number(whole.value, end, text)


def integer(tape: WordReader, at: int) -> Number | None:
    """The longest cardinal or ordinal that begins here."""
    if tape.at(at) == "zero":
        return Number(0, at + 1, "0")
    group = _Group(1, at + 1) if tape.at(at) == "a" and tape.at(at + 1) in _SCALES else _group(tape, at)
    if group is None:
        return None
    total, bound = 0, 10**15
    while True:
        word = tape.at(group.end)
        scale = 0 if group.ordinal else _SCALES.get(word, 0) or _SCALE_ORDINALS.get(word, 0)
        if not scale:
            return _number(total + group.value, group.end, group.ordinal)
        total, end, bound = total + group.value * scale, group.end + 1, scale
        if word in _SCALE_ORDINALS:
            return _number(total, end, True)
        following = _remainder(tape, end, bound)
        if following is None:
            return _number(total, end)
        group = following


def year(tape: WordReader, at: int, earliest: int = 16) -> Number | None:
    """A year or decade said in two halves ("nineteen eighty four"); its century begins with `earliest` or more."""
    word = tape.at(at)
    century = _TEENS.get(word, 0) or (20 if word == "twenty" else 0)
    if century < earliest:
        return None
    if tape.at(at + 1) in _DECADES:
        value = century * 100 + _DECADES[tape.at(at + 1)]
        return Number(value, at + 2, f"{value}s")
    half = minutes(tape, at + 1)
    if half is None or tape.at(half.end) in MULTIPLIERS:
        return None
    value = century * 100 + half.value
    return Number(value, half.end, str(value))


def minutes(tape: WordReader, at: int) -> Number | None:
    """Two figures said as one half of a year or time: "thirty", "forty five", "oh five"."""
    if tape.at(at) in _OH:
        unit = _UNITS.get(tape.at(at + 1))
        return None if unit is None else Number(unit, at + 2, f"0{unit}")
    half = _below_hundred(tape, at)
    if half is None or half.ordinal or half.value < 10:
        return None
    return Number(half.value, half.end, str(half.value))


def digits(tape: WordReader, at: int) -> Number | None:
    """Three or more single digits in a row; mere counting has its digits apart."""
    found: list[int] = []
    end = at
    while len(found) < LONGEST_RUN:
        word = tape.at(end)
        repeats = _REPEATS.get(word, 1)
        last = end + (repeats > 1)
        digit = _DIGITS_AND_OH.get(tape.at(last))
        if digit is None:
            break
        following = tape.at(last + 1)
        if following in MULTIPLIERS or following == "point":
            break  # it begins a number of its own
        # "oh" is also said by the surprised.
        if word in _OH and following not in _DIGITS_AND_OH and len(found) < 4:
            break
        found += [digit] * repeats
        end = last + 1
    if len(found) < (5 if tape.at(at) in _OH else 3):
        return None
    steps = {later - earlier for earlier, later in pairwise(found)}
    counting = steps in ({1}, {-1})
    return Number(0, end, (" " if counting else "").join(map(str, found)))


def with_suffix(value: int) -> str:
    """An ordinal in figures: 21st."""
    suffix = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{_grouped(value)}{suffix}"


@dataclass(frozen=True)
class _Group:
    """A number below a thousand and the position behind it."""

    value: int
    end: int
    ordinal: bool = False


def _group(tape: WordReader, at: int) -> _Group | None:
    article = tape.at(at) == "a" and tape.at(at + 1) in _HUNDRED
    group = _Group(1, at + 1) if article else _below_hundred(tape, at)
    hundred = _HUNDRED.get(tape.at(group.end)) if group and not group.ordinal else None
    # "Twenty five hundred" is said, "twenty hundred" is not.
    if group is None or hundred is None or group.value % 10 == 0:
        return group
    value, end = group.value * 100, group.end + 1
    if hundred:
        return _Group(value, end, True)
    with_and = tape.at(end) == "and"
    rest = _below_hundred(tape, end + with_and)
    if rest is None or tape.at(rest.end) in _HUNDRED:
        return _Group(value, end)
    # "Eight hundred five five five": a number and then digits.
    if not with_and and rest.value < 10 and not rest.ordinal and tape.at(rest.end) in _DIGITS_AND_OH:
        return _Group(value, end)
    return _Group(value + rest.value, rest.end, rest.ordinal)


def _remainder(tape: WordReader, at: int, bound: int) -> _Group | None:
    """The group that goes on a number behind a scale."""
    with_and = tape.at(at) == "and"
    group = _below_hundred(tape, at + 1) if with_and else _group(tape, at)
    if group is None or (tape.at(at) == "a" and not with_and):
        return None
    following = tape.at(group.end)
    scale = _SCALES.get(following, 0) or _SCALE_ORDINALS.get(following, 0)
    if scale >= bound or (with_and and following in _HUNDRED):
        return None
    return group


def _below_hundred(tape: WordReader, at: int) -> _Group | None:
    word = tape.at(at)
    if word in _TENS:
        following = tape.at(at + 1)
        if following in _UNITS:
            return _Group(_TENS[word] + _UNITS[following], at + 2)
        if following in _UNIT_ORDINALS:
            return _Group(_TENS[word] + _UNIT_ORDINALS[following], at + 2, True)
    if word in _CARDINALS:
        return _Group(_CARDINALS[word], at + 1)
    return _Group(_ORDINALS[word], at + 1, True) if word in _ORDINALS else None


def _fraction(tape: WordReader, at: int) -> tuple[str, int]:
    """The figures behind a decimal point: digits one by one, or one number of two figures."""
    pair = minutes(tape, at) if tape.at(at) not in _OH else None
    if pair is not None:
        return pair.text, pair.end
    figures = ""
    while len(figures) < _LONGEST_FRACTION:
        digit = _DIGITS_AND_OH.get(tape.at(at + len(figures)))
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
