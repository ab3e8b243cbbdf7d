"""Reading spoken numbers, compared with a library that speaks them."""

from __future__ import annotations

import random

import pytest
from num2words import num2words

from streamer.engine.text.figures import TrackedWords, integer, number, with_suffix, year


def spoken(value: int | float, to: str = "cardinal") -> list[str]:
    return str(num2words(value, to=to)).replace(",", "").replace("-", " ").split()


def some_integers() -> list[int]:
    """Return all small numbers, and some of every size."""
    dice = random.Random(2)
    return [*range(1200), *(dice.randrange(10**digits) for digits in range(4, 15) for _ in range(60))]


def test_cardinals_are_read() -> None:
    """Every spoken cardinal is read whole, with "and" and without."""
    for value in some_integers():
        for words in (spoken(value), [word for word in spoken(value) if word != "and"]):
            found = integer(TrackedWords([*words, "people"]), 0)
            assert found is not None
            assert (found.value, found.end, found.ordinal) == (value, len(words), False), words


def test_ordinals_are_read() -> None:
    """Every spoken ordinal is read whole."""
    for value in some_integers()[1:]:
        words = spoken(value, to="ordinal")
        found = integer(TrackedWords(words), 0)
        assert found is not None
        assert (found.value, found.end, found.ordinal) == (value, len(words), True), words
        assert found.text.replace(",", "") == num2words(value, to="ordinal_num")


def test_decimals_are_read() -> None:
    """Decimals have single digits after the point."""
    for value in (0.5, 3.14, 10.25, 21.0125, 105.9):
        found = number(TrackedWords(spoken(value)), 0)
        assert found is not None
        assert found.text == str(value)


def test_years_are_read() -> None:
    """Years are read in two halves, or as one number if they are spoken like one."""
    for value in range(1600, 2100):
        words = spoken(value, to="year")
        found = year(TrackedWords(words), 0) or integer(TrackedWords(words), 0)
        assert found is not None
        assert (found.text, found.end) == (str(value), len(words))


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1st"), (2, "2nd"), (11, "11th"), (12, "12th"), (113, "113th"), (1003, "1003rd")]
)
def test_ordinals_are_written(value: int, text: str) -> None:
    """The suffix depends on the last digits."""
    assert with_suffix(value) == text


def test_a_tape_remembers_how_far_was_looked() -> None:
    """Looking after the last word is recorded too, because a word may still come."""
    tape = TrackedWords(["One", "cat\u2019s"])
    assert tape.furthest == -1
    assert [tape.at(0), tape.at(1), tape.at(2)] == ["one", "cat's", ""]
    tape.at(0)
    assert tape.furthest == 2
