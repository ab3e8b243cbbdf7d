"""Where a reading differs from other words, in whole written words."""

from __future__ import annotations

import random

import pytest

from streamer.engine.reader.differences import OtherWords, as_written, at_characters, characters, other_words
from streamer.engine.reader.reading import Token
from streamer.engine.reader.reading_words import WrittenWord, written_words


def written(text: str) -> list[WrittenWord]:
    return written_words([Token(f" {word}", -0.1) for word in text.split()], lambda word: True)


@pytest.mark.parametrize(
    ("read", "words", "expected"),
    [
        ("It was here.", "it was here", []),
        ("It was here.", "it is here", [(1, 2, "is")]),
        ("It was here.", "was here", [(0, 1, "")]),
        ("It was here.", "it was in here", [(2, 2, "in")]),
        ("It was here.", "and it was here now", [(0, 0, "and"), (3, 3, "now")]),
        ("It was here.", "", [(0, 3, "")]),
        ("", "it was", [(0, 0, "it was")]),
        ("In 1984 they", "in nineteen eighty four they", []),
        ("In 1984 they", "in one nine eight four they", []),
        ("In 1984 they", "in nineteen eighty five they", [(1, 2, "nineteen eighty five")]),
        ("In 1984 they", "an nineteen ninety four day", [(0, 1, "an"), (1, 2, "nineteen ninety four"), (2, 3, "day")]),
        ("In 1984 they", "in the nineteen eighty four they", [(1, 1, "the")]),
        ("A red-haired man", "a red hard man", [(1, 2, "red hard")]),
        ("A red-haired man", "a red and haired man", [(1, 2, "red and haired")]),
        ("Well, no...", "well yes", [(1, 2, "yes")]),
    ],
)
def test_differences_cover_whole_written_words(read: str, words: str, expected: list[tuple[int, int, str]]) -> None:
    """What may be said like the other words is no difference, and a figure is taken or left as a whole."""
    found = other_words(written(read), words.split())
    assert [(one.first, one.last, " ".join(one.words)) for one in found] == expected


def test_all_differences_together_give_the_other_words() -> None:
    """Taking the other side of each difference gives the other words, whatever they are."""
    dice = random.Random(4)
    for _ in range(300):
        read = written(" ".join(dice.choices(["a", "b", "c-d", "e-f-g"], k=dice.randint(0, 7))))
        words = dice.choices(["a", "b", "c", "d", "e", "f", "g"], k=dice.randint(0, 9))
        line: list[str] = []
        at = 0
        for one in other_words(read, words):
            assert at <= one.first <= one.last
            line += [word.text for place in read[at : one.first] for word in place.phrase[0]]
            line += one.words
            at = one.last
        line += [word.text for place in read[at:] for word in place.phrase[0]]
        assert line == words


def test_characters_name_the_same_words() -> None:
    """A difference is told by characters, without the mark after it, and found again by them."""
    read = written("It was, 'here', \u2026 now.")
    for first in range(5):
        for last in range(first, 5):
            other = OtherWords(first, last, ("x",))
            start, end = characters(read, other)
            assert at_characters(read, start, end, ("x",)) == other
    assert characters(read, OtherWords(1, 2, ("is",))) == (4, 7)
    for start, end in ((5, 7), (4, 6), (4, 8), (-3, 2), (100, 100)):
        assert at_characters(read, start, end, ("x",)) is None


@pytest.mark.parametrize(
    ("first", "words", "text"),
    [(0, "it is", "It is"), (1, "i think i'm", "I think I'm"), (1, "in it", "in it"), (0, "", "")],
)
def test_words_are_written_as_the_reader_writes(first: int, words: str, text: str) -> None:
    """A segment begins with a capital, and only `I` has one elsewhere."""
    assert as_written(OtherWords(first, first, tuple(words.split()))) == text
