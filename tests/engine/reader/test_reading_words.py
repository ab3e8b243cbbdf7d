"""The spoken words of a reading, with its marks and capitals."""

from __future__ import annotations

import math
import random

import pytest

from streamer.engine.reader.reading import Token
from streamer.engine.reader.reading_words import Phrase, phrases_of
from streamer.engine.text.marks import Case, Mark

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
