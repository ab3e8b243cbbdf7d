"""The spoken words of a reading, with its marks and capitals."""

from __future__ import annotations

import math
import random

import pytest

from streamer.engine.reader.reading import Token
from streamer.engine.reader.reading_words import Phrase, phrases_of, spoken_figures
from streamer.engine.text.marks import Case, Mark
from streamer.engine.text.written_form import Form, read_tokens, written_tokens

KNOWN = {"nasa", "hello", "covid"}
MARKS = {Mark.NONE: "", Mark.COMMA: ",", Mark.FULL_STOP: ".", Mark.QUESTION: "?"}


def phrases(text: str) -> list[Phrase]:
    return phrases_of([Token(text, -0.1)], KNOWN.__contains__)


def read(text: str) -> str:
    """The likeliest words, each with its capitals and its mark."""
    words = [word for phrase in phrases(text) for word in phrase[0]]
    return " ".join(_cased(word.text, word.marked.case) + MARKS[word.marked.mark] for word in words)


def _cased(text: str, case: Case) -> str:
    return text.upper() if case is Case.ALL else text.capitalize() if case is Case.FIRST else text


def said(text: str) -> list[set[str]]:
    """All ways to say each written word."""
    return [{" ".join(word.text for word in way) for way in phrase} for phrase in phrases(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Hello, my name is Anna.", "Hello, my name is Anna."),
        ("Is it?", "Is it?"),
        ("No! Never; ever: so\u2026 well", "No. Never, ever, so well"),
        ('"Go," he said. "Now!"', "Go, he said. Now."),
        ("\u201cGo,\u201d he\u2019d say", "Go, he'd say"),
        ("'Tis the dogs' 'house'.", "Tis the dogs house."),
        ("(what?) [it] *is* _not_", "what? it is not"),
        ("well\u2014so twenty-one re\u2010elected", "well so twenty one re elected"),
        ("yes \u2014 and , no", "yes, and, no"),
        ("end. \u2014 New", "end. New"),
        ("and/or", "and or"),
        ("caf\u00e9 na\u00efve \u00c9mile", "cafe naive Emile"),
        ("Mr. Smith and Mrs. Jones, Prof. X", "Mister Smith and Missus Jones, Professor X"),
        ("It was 10 a.m. We left.", "It was ten a m We left."),
        ("It was 10 a.m.", "It was ten a m."),
        ("the U.S. Army", "the U S Army"),
        ("in the U.S.", "in the U S."),
        ("e.g. this etc. and", "e g this etc and"),
        ("well... so", "well so"),
        ("No. I do not.", "No. I do not."),
        ("No. 5 is alive.", "Number five is alive."),
        ("salt & pepper", "salt and pepper"),
        ("5 % of", "five percent of"),
        ("in 1984, on the 20th.", "in nineteen eighty four, on the twentieth."),
        ("COVID-19", "COVID nineteen"),
        ("It costs $5 million.", "It costs five million dollars."),
        ("$5.50?", "five dollars and fifty cents?"),
        ("at 10:30pm and 5am, I am", "at ten thirty p m and five a m, I am"),
        ("1.2.3", "one two three"),
        ("McDonald", "Mcdonald"),
    ],
)
def test_written_words_are_said(text: str, expected: str) -> None:
    """Marks and capitals go with the words that are said; an abbreviation ends no sentence, unless nothing follows."""
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FBI", [{"f b i", "fbi"}]),
        ("NASA", [{"nasa", "n a s a"}]),
        ("St. Dr. x", [{"saint", "street"}, {"doctor", "drive"}, {"x"}]),
        ("007", [{"zero zero seven", "oh oh seven", "double oh seven"}]),
    ],
)
def test_some_words_have_several_ways(text: str, expected: list[set[str]]) -> None:
    """What was heard decides between the ways."""
    assert said(text) == expected


def test_a_known_word_is_rather_said_than_spelled() -> None:
    """Capitals that are a word of the lexicon are that word first."""
    assert [read(text) for text in ("NASA", "FBI", "HELLO", "ABCDEF")] == ["NASA", "F B I", "HELLO", "ABCDEF"]


@pytest.mark.parametrize("text", ["", " ", ".", "...", " ? ! ", "\u2014", '"', "\u266a", "()", "$", "'"])
def test_marks_alone_are_no_words(text: str) -> None:
    """A reading without letters and figures has no words."""
    assert phrases(text) == []


def test_a_word_is_as_likely_as_its_letters() -> None:
    """The probability of a word is the geometric mean over its characters, whatever tokens they come from."""
    tokens = [Token(" un", -0.3), Token("like", -0.6), Token("ly", 0.0), Token(" so", -1.0), Token(".", -9.0)]
    first, second = phrases_of(tokens, KNOWN.__contains__)
    assert first[0][0].probability == pytest.approx(math.exp((-0.6 - 2.4) / 8))
    assert second[0][0].probability == pytest.approx(math.exp((-2.0 - 9.0) / 3))


def test_any_text_has_words() -> None:
    """Whatever a reader writes becomes lower-case words without spaces and figures, and does no harm."""
    dice = random.Random(1)
    alphabet = "aB\u00e9\u00df\u0130'.,:;-$%0159 \u2019\u201c\u00bd\u00b2\u0663\u4e2d\u3042\u0301\u2014/@st"
    for _ in range(5_000):
        tokens = [Token("".join(dice.choices(alphabet, k=dice.randint(0, 6))), -dice.random()) for _ in range(5)]
        for phrase in phrases_of(tokens, KNOWN.__contains__):
            assert phrase
            for word in (word for way in phrase for word in way):
                assert word.text == word.text.lower()
                assert not any(letter.isspace() or letter.isdecimal() for letter in word.text), word.text
                assert word.text.strip("'")
                assert 0 < word.probability <= 1


# The spoken words of written figures.


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
