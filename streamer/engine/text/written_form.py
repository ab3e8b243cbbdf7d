"""The written form of spoken English words by rule: figures for numbers, money, times and dates, and capitals.

The words are read once from left to right, and every piece knows how far its rules looked ahead: that makes
`settled` exact. What is written how: docs/written.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamer.engine.text.spoken_numbers import (
    BEGINNINGS,
    DIGITS,
    Number,
    WordReader,
    digits,
    integer,
    minutes,
    number,
    with_suffix,
    year,
)


@dataclass(frozen=True)
class Piece:
    """What the spoken words [first:end) become."""

    text: str
    first: int
    end: int


def written(words: Sequence[str], *, begins: bool = True) -> list[Piece]:
    """The written form of all words, in order and without gaps; `begins`: the first opens a sentence."""
    return [piece for piece, _ in _read(words, begins)]


def settled(words: Sequence[str], stable: int, *, begins: bool = True) -> int:
    """How many leading pieces cannot change, whatever follows the first `stable` words."""
    known = words[: max(0, stable)]
    count = 0
    for _, furthest in _read(known, begins):
        if furthest >= len(known):
            break
        count += 1
    return count


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
_PLAIN_MONTHS = _words("january february april june july august september october november december")
# These are words of their own, too: months only beside a day or a year.
_DOUBTFUL_MONTHS = ("march", "may")
_MONTHS = frozenset((*_PLAIN_MONTHS, *_DOUBTFUL_MONTHS))
_CAPITALS = frozenset(
    name + ending for name in (*_WEEKDAYS, *_PLAIN_MONTHS) for ending in ("", "'s", *(("s",) if "day" in name else ()))
)
# "You may first ..." is no day, "on may first ..." is.
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
# A number before one of these counts them: it is half of no time and of no year.
_COUNTED = frozenset(
    {*_DURATIONS, *_MEASURES, *_CURRENCIES, "percent", "point", "people", "times", "hundred", "thousand"}
)
# What is told apart by numbers has them in figures.
_LABELS = _words(
    "apartment chapter channel flight gate highway page platform room route section suite verse version volume"
)
_BEFORE_TIMES = _words("around at by till until")
_BEFORE_COUNTED_ONE = _words("any each every no some")
_ADJECTIVES = _words("a another each every")
_CLEAR_MINUTES = (15, 30, 45)
_SMALL = 10

_Found = tuple[str, int]
"""Text, and the position behind its last word."""


def _read(words: Sequence[str], begins: bool) -> Iterator[tuple[Piece, int]]:
    """The pieces, each with the furthest position that was looked at for it or for one before it."""
    tape = WordReader(words)
    said: list[str] = []
    position = 0
    while position < len(words):
        text, end = _piece(tape, position, said) or (words[position], position + 1)
        tape.at(end - 1)
        said += text.lower().split()
        if begins and position == 0:
            text = text[:1].title() + text[1:]
        yield Piece(text, position, end), tape.furthest
        position = end


def _piece(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    word = tape.at(at)
    if word == "i" or word.startswith("i'"):
        return f"I{word[1:]}", at + 1
    if word in _MONTHS:
        return _date(tape, at, said)
    if word in _CAPITALS:
        return word.capitalize(), at + 1
    if word in ("half", "quarter", "a"):
        return _fraction_of_hour(tape, at) or (_figures(tape, at, said) if word == "a" else None)
    if word in ("minus", "negative"):
        return _below_zero(tape, at, said)
    if word in ("oh", "o", "double", "triple"):
        return _found(digits(tape, at))
    if word in BEGINNINGS:
        return _time(tape, at, said) or _year(tape, at, said) or _found(digits(tape, at)) or _figures(tape, at, said)
    return None


def _found(number: Number | None) -> _Found | None:
    return None if number is None else (number.text, number.end)


def _last(said: Sequence[str], back: int = 1) -> str:
    return said[-back] if len(said) >= back else ""


# Dates


def _date(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    """A month with the day and the year behind it, as far as they are there."""
    month = tape.at(at).capitalize()
    sure = tape.at(at) not in _DOUBTFUL_MONTHS
    day = integer(tape, at + 1 + (tape.at(at + 1) == "the"))
    if day is not None and 1 <= day.value <= 31:
        behind = _full_year(tape, day.end)
        if behind is not None:
            return f"{month} {day.value}, {behind.text}", behind.end
        opens = not said or _last(said) in _BEFORE_DATES
        if day.ordinal and (sure or opens or day.value > 2):
            return f"{month} {day.value}", day.end
    of_year = _full_year(tape, at + 1)
    if of_year is not None:
        return f"{month} {of_year.text}", of_year.end
    day_before = _last(said) == "of" and _last(said, 2)[:1].isdigit()
    return (month, at + 1) if sure or day_before else None


def _full_year(tape: WordReader, at: int) -> Number | None:
    halves = year(tape, at, earliest=10)
    if halves is not None:
        return None if tape.at(halves.end) in _COUNTED else halves
    whole = integer(tape, at)
    plain = whole is not None and not whole.ordinal and 1000 <= whole.value < 3000
    return whole if whole is not None and plain and tape.at(whole.end) not in _COUNTED else None


def _year(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    found = year(tape, at, earliest=10)
    if found is None or tape.at(found.end) in _COUNTED or tape.at(found.end) == "per":
        return None
    # "Thirteen thirty" may be a time and "twelve ninety" a price; "fourteen sixty nine" is neither.
    clear = found.value >= 1600 or (found.value >= 1300 and found.value % 100 >= 60)
    return (found.text, found.end) if clear or _last(said) in ("in", "year") else None


# Times of day


def _time(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    hour = integer(tape, at)
    if hour is None or hour.ordinal or not 1 <= hour.value < 60:
        return None
    past = _past(tape, hour)
    if past is not None:
        return past
    if hour.value > 23:
        return None
    on_clock = hour.value <= 12
    if on_clock and (half := _half_of_day(tape, hour.end)):
        return f"{hour.value} {half[0]}", half[1]
    if on_clock and tape.at(hour.end) == "o'clock":
        return f"{hour.value} o'clock", hour.end + 1
    if on_clock and tape.at(hour.end) == "o" and tape.at(hour.end + 1) == "clock":
        return f"{hour.value} o'clock", hour.end + 2
    minute = minutes(tape, hour.end)
    if minute is None or minute.value > 59:
        return None
    text = f"{hour.value}:{minute.text}"
    if on_clock and (half := _half_of_day(tape, minute.end)):
        return f"{text} {half[0]}", half[1]
    if tape.at(minute.end) in _COUNTED:
        return None
    before = _last(said)
    if before in _BEFORE_TIMES if on_clock else before == "at":
        return text, minute.end
    clear = on_clock and minute.value in _CLEAR_MINUTES
    one_of_them = hour.value == 1 and before in _BEFORE_COUNTED_ONE
    return (text, minute.end) if clear and not one_of_them else None


def _past(tape: WordReader, minute: Number) -> _Found | None:
    """So many minutes past or to an hour; "ten to five" without "minutes" may as well be a range."""
    with_unit = tape.at(minute.end) in ("minute", "minutes")
    word = tape.at(minute.end + with_unit)
    if word in ("past", "after") and (with_unit or word == "past"):
        return _at_hour(tape, minute.end + with_unit + 1, minute.value)
    return _at_hour(tape, minute.end + 2, -minute.value) if with_unit and word == "to" else None


def _fraction_of_hour(tape: WordReader, at: int) -> _Found | None:
    """Half past, (a) quarter past, (a) quarter to."""
    at += tape.at(at) == "a"
    word = tape.at(at)
    if word == "half" and tape.at(at + 1) == "past":
        return _at_hour(tape, at + 2, 30)
    if word == "quarter" and tape.at(at + 1) in ("past", "after", "to"):
        return _at_hour(tape, at + 2, -15 if tape.at(at + 1) == "to" else 15)
    return None


def _at_hour(tape: WordReader, at: int, minute: int) -> _Found | None:
    hour = integer(tape, at)
    if hour is None or hour.ordinal or not 1 <= hour.value <= 12 or tape.at(hour.end) in _COUNTED:
        return None
    of_twelve = hour.value if minute >= 0 else (hour.value - 2) % 12 + 1
    text = f"{of_twelve}:{minute % 60:02}"
    half = _half_of_day(tape, hour.end)
    return (f"{text} {half[0]}", half[1]) if half else (text, hour.end)


def _half_of_day(tape: WordReader, at: int) -> _Found | None:
    word = tape.at(at)
    if word in ("pm", "p.m.") or (word in ("am", "a.m.") and tape.at(at + 1) != "i"):
        return word[0].upper() + "M", at + 1
    if word in ("a", "p") and tape.at(at + 1) == "m":
        return word.upper() + "M", at + 2
    return None


# Amounts


def _figures(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    """A number with what it counts, where that changes how it is written; None where it stays a word."""
    found = number(tape, at)
    if found is None:
        return None
    if found.ordinal:
        return _ordinal(tape, at, found, said)
    amount = _amount(tape, found, said)
    if tape.at(at) == "a" and (_last(said) in ("half", "many", "of") or (amount is None and _round(tape, at, found))):
        return None
    if amount is not None:
        return amount
    alone = found.end == at + 1 and found.value < _SMALL
    measured = tape.at(at) != "one" and (tape.at(found.end) in _MEASURES or tape.at(found.end) == "pounds")
    if alone and not measured and _last(said) not in _LABELS:
        return None
    return found.text, found.end


def _round(tape: WordReader, at: int, found: Number) -> bool:
    """Whether there is nothing but "a" and scales: it may mean many."""
    return all(tape.at(position) not in BEGINNINGS for position in range(at, found.end))


def _amount(tape: WordReader, found: Number, said: Sequence[str]) -> _Found | None:
    """Money or a percentage."""
    word = tape.at(found.end)
    if word == "percent":
        return f"{found.text}%", found.end + 1
    if word == "per" and tape.at(found.end + 1) == "cent":
        return f"{found.text}%", found.end + 2
    sign = _CURRENCIES.get(word)
    end = found.end + 1
    if sign is None or (word == "pounds" and (tape.at(end) == "of" or _last(said) in _WEIGHING)):
        return None
    if sign in _CENTS and found.text.replace(",", "").isdigit():
        behind = end + (tape.at(end) == "and")
        part = integer(tape, behind) if tape.at(behind) != "a" else None
        if part is not None and not part.ordinal and part.value < 100 and tape.at(part.end) in _CENTS[sign]:
            return f"{sign}{found.text}.{part.value:02}", part.end + 1
    return sign + found.text, end


def _below_zero(tape: WordReader, at: int, said: Sequence[str]) -> _Found | None:
    found = number(tape, at + 1) if tape.at(at + 1) != "a" else None
    # "Ten minus five" is a difference.
    if found is None or found.ordinal or _last(said) in DIGITS or _last(said)[-1:].isdigit():
        return None
    text, end = _amount(tape, found, said) or (found.text, found.end)
    return f"-{text}", end


def _ordinal(tape: WordReader, at: int, found: Number, said: Sequence[str]) -> _Found | None:
    before, following = _last(said), tape.at(found.end)
    if found.end == at + 1 and found.value < _SMALL:
        of_month = following == "of" and tape.at(found.end + 1) in _MONTHS
        of_week = before == "the" and _last(said, 2) in _WEEKDAYS
        return (with_suffix(found.value), found.end) if of_month or of_week else None
    # A part and not a place: "one tenth", "a tenth of it", "one hundredth".
    if before in DIGITS or (before == "a" and following == "of") or (tape.at(at) == "one" and found.end == at + 2):
        return None
    if tape.at(found.end - 1) == "second" and before in _ADJECTIVES and found.value < 100:
        return str(found.value - 2), found.end - 1  # a thirty second clip
    return found.text, found.end
