"""Writes spoken English numbers, money, times and dates in figures. docs/reference/written.md lists the rules.

This is a stage of the written form (`written_form.py`). It reads the words only through `TrackedWords.at`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
_PLAIN_MONTHS = _words("january february april june july august september october november december")
# These also have other meanings, so they are months only next to a day or a year.
_DOUBTFUL_MONTHS = ("march", "may")
_MONTHS = frozenset((*_PLAIN_MONTHS, *_DOUBTFUL_MONTHS))
_CAPITALS = frozenset(
    name + ending for name in (*_WEEKDAYS, *_PLAIN_MONTHS) for ending in ("", "'s", *(("s",) if "day" in name else ()))
)
# "You may first ..." is not a date, but "on may first ..." is.
_BEFORE_DATES = _words("after and before by for from in next of on since the this till to until")

_CURRENCIES = {
    **dict.fromkeys(("dollar", "dollars"), "$"),
    **dict.fromkeys(("pound", "pounds"), "\u00a3"),
    **dict.fromkeys(("euro", "euros"), "\u20ac"),
    **dict.fromkeys(("rupee", "rupees"), "\u20b9"),
    "yen": "\u00a5",
}
_CENTS = {
    "$": ("cent", "cents"),
    "\u20ac": ("cent", "cents"),
    "\u00a3": ("pence", "penny"),
}
_WEIGHING = _words("gain gained gaining lose losing lost weigh weighed weighing weighs")
_MEASURES = _words(
    "acres cents celsius centimeters centimetres degrees fahrenheit feet gallons gigabytes grams hectares hertz inches "
    "kilobytes kilograms kilohertz kilometers kilometres kilos kilowatts liters litres megabytes megahertz megawatts "
    "meters metres miles milligrams milliliters millilitres millimeters millimetres milliseconds ounces pence pints "
    "terabytes tonnes tons volts watts yards"
)
_DURATIONS = frozenset(form for name in _words("second minute hour day week month year") for form in (name, f"{name}s"))
# A number before one of these counts them, so it is not part of a time or a year.
_COUNTED = frozenset(
    {*_DURATIONS, *_MEASURES, *_CURRENCIES, "percent", "point", "people", "times", "hundred", "thousand"}
)
# After these words, a number is a label, which is written in figures.
_LABELS = _words(
    "apartment chapter channel flight gate highway page platform room route section suite verse version volume"
)
_BEFORE_TIMES = _words("around at by till until")
_BEFORE_COUNTED_ONE = _words("any each every no some")
_ADJECTIVES = _words("a another each every")
_CLEAR_MINUTES = (15, 30, 45)
_SMALL = 10

_Figures = tuple[str, int]
"""A text, and the position after its last word."""


def figures_at(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    """Return the written form of the words that begin here; None if the first one stays as it was said.

    `earlier` has the words of the written form so far, in lower case.
    """
    word = words.at(at)
    if word == "i" or word.startswith("i'"):
        return f"I{word[1:]}", at + 1
    if word in _MONTHS:
        return _date(words, at, earlier)
    if word in _CAPITALS:
        return word.capitalize(), at + 1
    if word in ("half", "quarter", "a"):
        return _fraction_of_hour(words, at) or (_figures(words, at, earlier) if word == "a" else None)
    if word in ("minus", "negative"):
        return _below_zero(words, at, earlier)
    if word in ("oh", "o", "double", "triple"):
        return _text_and_end(digits(words, at))
    if word in BEGINNINGS:
        return (
            _time(words, at, earlier)
            or _year(words, at, earlier)
            or _text_and_end(digits(words, at))
            or _figures(words, at, earlier)
        )
    return None


def _text_and_end(number: Number | None) -> _Figures | None:
    return None if number is None else (number.text, number.end)


def _last(earlier: Sequence[str], back: int = 1) -> str:
    return earlier[-back] if len(earlier) >= back else ""


# Dates


def _date(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    """Return a month with the day and the year after it, if they follow."""
    month = words.at(at).capitalize()
    sure = words.at(at) not in _DOUBTFUL_MONTHS
    day = integer(words, at + 1 + (words.at(at + 1) == "the"))
    if day is not None and 1 <= day.value <= 31:
        following = _full_year(words, day.end)
        if following is not None:
            return f"{month} {day.value}, {following.text}", following.end
        opens = not earlier or _last(earlier) in _BEFORE_DATES
        if day.ordinal and (sure or opens or day.value > 2):
            return f"{month} {day.value}", day.end
    of_year = _full_year(words, at + 1)
    if of_year is not None:
        return f"{month} {of_year.text}", of_year.end
    day_before = _last(earlier) == "of" and _last(earlier, 2)[:1].isdigit()
    return (month, at + 1) if sure or day_before else None


def _full_year(words: TrackedWords, at: int) -> Number | None:
    halves = year(words, at, earliest=10)
    if halves is not None:
        return None if words.at(halves.end) in _COUNTED else halves
    whole = integer(words, at)
    plain = whole is not None and not whole.ordinal and 1000 <= whole.value < 3000
    return whole if whole is not None and plain and words.at(whole.end) not in _COUNTED else None


def _year(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    two_halves = year(words, at, earliest=10)
    if two_halves is None or words.at(two_halves.end) in _COUNTED or words.at(two_halves.end) == "per":
        return None
    # "Thirteen thirty" may be a time and "twelve ninety" a price; "fourteen sixty nine" is neither.
    clear = two_halves.value >= 1600 or (two_halves.value >= 1300 and two_halves.value % 100 >= 60)
    return (two_halves.text, two_halves.end) if clear or _last(earlier) in ("in", "year") else None


# Times of day


def _time(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    hour = integer(words, at)
    if hour is None or hour.ordinal or not 1 <= hour.value < 60:
        return None
    past = _past(words, hour)
    if past is not None:
        return past
    if hour.value > 23:
        return None
    on_clock = hour.value <= 12
    if on_clock and (half := _half_of_day(words, hour.end)):
        return f"{hour.value} {half[0]}", half[1]
    if on_clock and words.at(hour.end) == "o'clock":
        return f"{hour.value} o'clock", hour.end + 1
    if on_clock and words.at(hour.end) == "o" and words.at(hour.end + 1) == "clock":
        return f"{hour.value} o'clock", hour.end + 2
    minute = minutes(words, hour.end)
    if minute is None or minute.value > 59:
        return None
    text = f"{hour.value}:{minute.text}"
    if on_clock and (half := _half_of_day(words, minute.end)):
        return f"{text} {half[0]}", half[1]
    if words.at(minute.end) in _COUNTED:
        return None
    before = _last(earlier)
    if before in _BEFORE_TIMES if on_clock else before == "at":
        return text, minute.end
    clear = on_clock and minute.value in _CLEAR_MINUTES
    one_of_them = hour.value == 1 and before in _BEFORE_COUNTED_ONE
    return (text, minute.end) if clear and not one_of_them else None


def _past(words: TrackedWords, minute: Number) -> _Figures | None:
    """Return a time with minutes past or to an hour. "Ten to five" without "minutes" may be a range, so it stays."""
    with_unit = words.at(minute.end) in ("minute", "minutes")
    word = words.at(minute.end + with_unit)
    if word in ("past", "after") and (with_unit or word == "past"):
        return _at_hour(words, minute.end + with_unit + 1, minute.value)
    return _at_hour(words, minute.end + 2, -minute.value) if with_unit and word == "to" else None


def _fraction_of_hour(words: TrackedWords, at: int) -> _Figures | None:
    """Return a time with "half past", "(a) quarter past" or "(a) quarter to"."""
    at += words.at(at) == "a"
    word = words.at(at)
    if word == "half" and words.at(at + 1) == "past":
        return _at_hour(words, at + 2, 30)
    if word == "quarter" and words.at(at + 1) in ("past", "after", "to"):
        return _at_hour(words, at + 2, -15 if words.at(at + 1) == "to" else 15)
    return None


def _at_hour(words: TrackedWords, at: int, minute: int) -> _Figures | None:
    hour = integer(words, at)
    if hour is None or hour.ordinal or not 1 <= hour.value <= 12 or words.at(hour.end) in _COUNTED:
        return None
    of_twelve = hour.value if minute >= 0 else (hour.value - 2) % 12 + 1
    text = f"{of_twelve}:{minute % 60:02}"
    half = _half_of_day(words, hour.end)
    return (f"{text} {half[0]}", half[1]) if half else (text, hour.end)


def _half_of_day(words: TrackedWords, at: int) -> _Figures | None:
    word = words.at(at)
    if word in ("pm", "p.m.") or (word in ("am", "a.m.") and words.at(at + 1) != "i"):
        return word[0].upper() + "M", at + 1
    if word in ("a", "p") and words.at(at + 1) == "m":
        return word.upper() + "M", at + 2
    return None


# Amounts


def _figures(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    """Return a number in figures, with its unit if that changes its written form; None if it stays a word."""
    figure = number(words, at)
    if figure is None:
        return None
    if figure.ordinal:
        return _ordinal(words, at, figure, earlier)
    amount = _amount(words, figure, earlier)
    if words.at(at) == "a" and (
        _last(earlier) in ("half", "many", "of") or (amount is None and _vague(words, at, figure))
    ):
        return None
    if amount is not None:
        return amount
    alone = figure.end == at + 1 and figure.value < _SMALL
    measured = words.at(at) != "one" and (words.at(figure.end) in _MEASURES or words.at(figure.end) == "pounds")
    if alone and not measured and _last(earlier) not in _LABELS:
        return None
    return figure.text, figure.end


def _vague(words: TrackedWords, at: int, figure: Number) -> bool:
    """Return whether the number has only "a" and scales such as "hundred", which may just mean many."""
    return all(words.at(position) not in BEGINNINGS for position in range(at, figure.end))


def _amount(words: TrackedWords, figure: Number, earlier: Sequence[str]) -> _Figures | None:
    """Return an amount of money or a percentage; None if the number is neither."""
    word = words.at(figure.end)
    if word == "percent":
        return f"{figure.text}%", figure.end + 1
    if word == "per" and words.at(figure.end + 1) == "cent":
        return f"{figure.text}%", figure.end + 2
    sign = _CURRENCIES.get(word)
    end = figure.end + 1
    if sign is None or (word == "pounds" and (words.at(end) == "of" or _last(earlier) in _WEIGHING)):
        return None
    if sign in _CENTS and figure.text.replace(",", "").isdigit():
        after = end + (words.at(end) == "and")
        part = integer(words, after) if words.at(after) != "a" else None
        if part is not None and not part.ordinal and part.value < 100 and words.at(part.end) in _CENTS[sign]:
            return f"{sign}{figure.text}.{part.value:02}", part.end + 1
    return sign + figure.text, end


def _below_zero(words: TrackedWords, at: int, earlier: Sequence[str]) -> _Figures | None:
    figure = number(words, at + 1) if words.at(at + 1) != "a" else None
    # "Ten minus five" is a difference.
    if figure is None or figure.ordinal or _last(earlier) in DIGITS or _last(earlier)[-1:].isdigit():
        return None
    text, end = _amount(words, figure, earlier) or (figure.text, figure.end)
    return f"-{text}", end


def _ordinal(words: TrackedWords, at: int, figure: Number, earlier: Sequence[str]) -> _Figures | None:
    before, following = _last(earlier), words.at(figure.end)
    if figure.end == at + 1 and figure.value < _SMALL:
        of_month = following == "of" and words.at(figure.end + 1) in _MONTHS
        of_week = before == "the" and _last(earlier, 2) in _WEEKDAYS
        return (with_suffix(figure.value), figure.end) if of_month or of_week else None
    # These are fractions, not ranks: "one tenth", "a tenth of it", "one hundredth".
    if before in DIGITS or (before == "a" and following == "of") or (words.at(at) == "one" and figure.end == at + 2):
        return None
    if words.at(figure.end - 1) == "second" and before in _ADJECTIVES and figure.value < 100:
        return str(figure.value - 2), figure.end - 1  # a thirty second clip
    return figure.text, figure.end


# Reads spoken English numbers: cardinals, ordinals, decimals, years and runs of digits.


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
