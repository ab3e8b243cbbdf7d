"""How figures are said."""

from __future__ import annotations

import random

import pytest

from streamer.engine.reader.spoken_figures import spoken_figures
from streamer.engine.text.written_form import Form, read_tokens, written_tokens


def ways(text: str) -> list[str]:
    return [" ".join(way) for way in spoken_figures(text)]


@pytest.mark.parametrize(
    ("text", "first", "others"),
    [
        ("0", "zero", []),
        ("7", "seven", []),
        ("21", "twenty one", ["two one"]),
        ("100", "one hundred", ["a hundred", "one zero zero"]),
        ("101", "one hundred one", ["one hundred and one", "a hundred and one", "one oh one"]),
        ("911", "nine hundred eleven", ["nine eleven", "nine one one"]),
        ("1984", "nineteen eighty four", ["one thousand nine hundred eighty four", "one nine eight four"]),
        ("1900", "nineteen hundred", ["one thousand nine hundred"]),
        ("1905", "nineteen oh five", ["one thousand nine hundred and five"]),
        ("2000", "two thousand", []),
        ("2005", "two thousand five", ["two thousand and five"]),
        ("2010", "twenty ten", ["two thousand ten", "two thousand and ten"]),
        ("1,200", "one thousand two hundred", ["twelve hundred", "a thousand two hundred"]),
        ("1,000,000", "one million", ["a million"]),
        ("007", "zero zero seven", ["oh oh seven", "double oh seven"]),
        ("0.5", "zero point five", []),
        ("3.14", "three point one four", []),
        ("10:30", "ten thirty", []),
        ("9:05", "nine oh five", []),
        ("10:00", "ten o'clock", ["ten"]),
        ("1st", "first", []),
        ("20th", "twentieth", []),
        ("22ND", "twenty second", []),
        ("12th", "twelfth", []),
        ("101st", "one hundred first", ["one hundred and first", "a hundred and first"]),
        ("1990s", "nineteen nineties", []),
        ("80's", "eighties", []),
        ("6s", "sixes", []),
        ("5%", "five percent", []),
        ("99.9%", "ninety nine point nine percent", []),
        ("90°", "ninety degrees", []),
        ("$1", "one dollar", []),
        ("$5.50", "five dollars and fifty cents", ["five dollars fifty cents", "five dollars fifty", "five fifty"]),
        ("$1,500", "one thousand five hundred dollars", ["fifteen hundred dollars"]),
        ("$5.00", "five dollars", []),
        ("$0.01", "one cent", []),
        ("£1.01", "one pound and one penny", ["one pound one"]),
        ("£2.50", "two pounds and fifty pence", ["two pounds fifty"]),
        ("€1.5", "one point five euros", []),
        ("$5 million", "five million dollars", []),
        ("£1.5 Billion", "one point five billion pounds", []),
    ],
)
def test_ways_to_say_figures(text: str, first: str, others: list[str]) -> None:
    """The likeliest way comes first, and the other usual ones are there, each once."""
    found = ways(text)
    assert found[0] == first
    assert set(others) <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("text", ["", "a", "1.2.3", "1,5", "10:3", "$", "5$", "x5", "5 million", "12345678901234567th"])
def test_what_is_no_figure(text: str) -> None:
    """Other texts have no way here."""
    assert spoken_figures(text) == []


def test_long_numbers_are_said_digit_by_digit() -> None:
    """A number for which there is no scale is said digit by digit."""
    assert ways("1" * 15)[0].startswith("one hundred eleven trillion")
    assert ways("1" * 16) == ["one " * 15 + "one", *ways("1" * 16)[1:]]


def test_any_figures_can_be_said() -> None:
    """Whatever a reader writes has words without figures, and does no harm."""
    dice = random.Random(1)
    for _ in range(20_000):
        text = "".join(dice.choices("0123456789.,:$£€%°", [9] * 10 + [2] * 8, k=dice.randint(1, 9)))
        text = dice.choice(["", "", "$"]) + text + dice.choice(["", "", "st", "th", "s", "'s", " million"])
        for way in spoken_figures(text):
            assert all(word.replace("'", "").isalpha() for word in way), text


@pytest.mark.parametrize("text", ["21", "1984", "2005", "$5", "$21.50", "5%", "20th", "1200", "3.14", "$5 million"])
def test_spoken_figures_become_figures_again(text: str) -> None:
    """The written form makes the same figures of the likeliest way, so a reader's figures reach the transcript."""
    tokens = read_tokens(f"it was {ways(text)[0]} then".split(), Form())
    assert " ".join(token.text for token in written_tokens(tokens, begins=False)) == f"it was {text} then"
