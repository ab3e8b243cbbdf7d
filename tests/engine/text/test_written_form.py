"""The written form: a table of examples, and rules that hold for any words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from streamer.engine.punctuation.marks import Case, Mark, MarkedWord
from streamer.engine.search.search import Hotword
from streamer.engine.text import spoken_numbers as numbers
from streamer.engine.text.hotword_spelling import spellings_of
from streamer.engine.text.written_form import (
    Form,
    WrittenToken,
    read_tokens,
    settled_tokens,
    written_tokens,
)
from streamer.text.joining import joined
from tests.engine.text.plain_form import settled, written
from tests.engine.text.written_form_table import ROWS

VOCABULARY = sorted(
    {word for spoken, _ in ROWS for word in spoken.split()}
    | numbers.BEGINNINGS
    | numbers.MULTIPLIERS
    | {"", "'", "I", "May", "21", "ß", "一", "o\u2019clock", "twenty-", "p.m.", "a.m.", "am", "-"}
)


def text(words: str, *, begins: bool = False) -> str:
    return " ".join(piece.text for piece in written(words.split(), begins=begins))


def sentences(number: int, longest: int) -> Iterator[list[str]]:
    """Yield words of the table in random order, and rows of it one after another."""
    dice = random.Random(5)
    for turn in range(number):
        if turn % 2:
            yield dice.choices(VOCABULARY, k=dice.randint(0, longest))
        else:
            yield " ".join(dice.choice(ROWS)[0] for _ in range(dice.randint(1, 4))).split()[:longest]


@pytest.mark.parametrize(("spoken", "expected"), ROWS)
def test_what_is_written_how(spoken: str, expected: str) -> None:
    """Every row of the table is written as the table says."""
    assert text(spoken) == expected


@pytest.mark.parametrize(
    ("spoken", "expected"),
    [
        ("the cat", "The cat"),
        ("five people", "Five people"),
        ("twenty people", "20 people"),
        ("école", "École"),
        ("i see", "I see"),
        ("'tis", "'tis"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital(spoken: str, expected: str) -> None:
    """The first word gets a capital only if it opens a sentence."""
    assert text(spoken, begins=True) == expected


def test_a_piece_tells_its_words() -> None:
    """Every token knows which spoken words it stands for."""
    assert written(["it", "costs", "five", "dollars", "and", "ten", "cents", "today"]) == [
        WrittenToken("It", 0, 1),
        WrittenToken("costs", 1, 2),
        WrittenToken("$5.10", 2, 7),
        WrittenToken("today", 7, 8),
    ]


def test_pieces_cover_all_words() -> None:
    """For any words the tokens are in order and without gaps, and single words are kept."""
    for words in sentences(1000, 24):
        pieces = written(words)
        assert [piece.first for piece in pieces] == [0, *(piece.end for piece in pieces)][: len(pieces)]
        assert (pieces[-1].end if pieces else 0) == len(words)
        assert all(piece.first < piece.end for piece in pieces)


def test_what_is_written_stays_written() -> None:
    """The written form of a written form is the same."""
    for words in sentences(2000, 12):
        once = " ".join(piece.text for piece in written(words, begins=False))
        assert text(once) == " ".join(once.split())


def test_settled_pieces_never_change() -> None:
    """Settled tokens stay the same, whatever follows the stable words."""
    dice = random.Random(6)
    shown = 0
    for words in sentences(600, 10):
        stable = dice.randint(0, len(words))
        pieces = written(words)
        count = settled(words, stable)
        shown += count
        for _ in range(10):
            continuation = dice.choices(VOCABULARY, k=dice.randint(0, 6))
            assert written([*words[:stable], *continuation])[:count] == pieces[:count]
    assert shown > 800


def test_any_single_word_may_follow_a_settled_piece() -> None:
    """Settled tokens stay the same for each row cut anywhere and each word of the vocabulary after it."""
    for spoken, _ in ROWS[::16]:
        words = spoken.split()
        for stable in range(len(words) + 1):
            count = settled(words, stable)
            before = written(words, begins=False)[:count]
            for word in VOCABULARY:
                assert written([*words[:stable], word], begins=False)[:count] == before


@pytest.mark.parametrize(
    ("spoken", "pieces"),
    [
        ("the cat sat", 3),
        ("the cat sat on may", 4),
        ("twenty", 0),
        ("twenty people", 2),
        ("twenty five", 0),
        ("it costs five dollars and ten", 2),
        ("it costs five dollars and a", 4),
        ("it costs five dollars and ten cents", 3),
        ("a", 0),
        ("a dog", 2),
        ("november twenty first", 0),
        ("november twenty first and", 2),
        ("i'm here", 2),
        ("five five five", 0),
    ],
)
def test_pieces_settle_soon(spoken: str, pieces: int) -> None:
    """Plain words settle at once, a number with the word after it."""
    words = spoken.split()
    assert settled(words, len(words)) == pieces


def test_no_number_grows_for_ever() -> None:
    """Dictated digits settle while they are dictated."""
    words = ["seven", "five"] * 30
    assert settled(words, len(words)) == len(words) // numbers.LONGEST_RUN - 1
    assert all(piece.end - piece.first <= numbers.LONGEST_RUN for piece in written(words))


def test_stable_beyond_the_words() -> None:
    """A stable count out of range counts as all of the words or none."""
    assert settled(["the", "cat"], 9) == 2
    assert settled(["the", "cat"], -1) == 0
    assert settled([], 0) == 0


def marked(said: str, **form: Any) -> str:
    """Return the written form of words after which these marks are decided, and with capitals where words have them."""
    words = said.split()
    marks = [
        MarkedWord(
            Mark(word[-1]) if word[-1] in ",.?" else Mark.NONE,
            Case.ALL if word[:3].isupper() else Case.FIRST if word[0].isupper() else Case.LOWER,
        )
        for word in words
    ]
    read = read_tokens([word.rstrip(",.?").lower() for word in words], Form(**form))
    return joined([token.text for token in written_tokens(read, begins=True, marks=marks)])


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        ("yes, i do. do you?", "Yes, I do. Do you?"),
        ("it was in nineteen eighty four. then", "It was in 1984. Then"),
        ("in nineteen, eighty. four, five", "In 1984, five"),
        ("he paid twenty dollars, not ten.", "He paid $20, not 10."),
        ("at five p m. we left", "At 5 PM. We left"),
        ("in the u s. we", "In the U.S. We"),
        ("in the u s, we", "In the U.S., we"),
        ("NASA and NASA's", "NASA and NASA's"),
        ("O'brien met Mccarthy", "O'Brien met McCarthy"),
        ("we may. May came", "We may. May came"),
    ],
)
def test_marks_join_what_is_written(decided: str, expected: str) -> None:
    """A mark follows the whole token, its inner ones are left out, and a sentence begins with a capital."""
    assert marked(decided) == expected


def test_hotwords_keep_their_capitals() -> None:
    """Hotwords keep their letters, also at the start of a sentence, and marks come after them."""
    hotwords = [Hotword("iPhone"), Hotword("New York"), Hotword("quilter"), Hotword("k eight s", written="K8s")]
    spellings = spellings_of(hotwords, capitals=True)
    said = "iphone. iphone's in new york, and k eight s? Quilter"
    assert marked(said, spellings=spellings) == "iPhone. iPhone's in New York, and K8s? Quilter"
    assert marked("new york is new.", spellings=spellings_of(hotwords, capitals=False)) == "New york is new."


def test_a_token_is_settled_with_its_marks() -> None:
    """Stable words wait until their marks are decided, and none is before its number is."""
    read = read_tokens(["so", "it", "was", "nineteen", "eighty", "four", "then"], Form())
    assert [settled_tokens(read, 7, decided) for decided in range(8)] == [0, 1, 2, 3, 3, 3, 4, 5]
    assert settled_tokens(read_tokens(["so", "nineteen", "eighty", "four"], Form()), 4, 4) == 1
