"""The written form: a table of examples, and rules that hold for any words."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from streamer.engine.text import spoken_numbers as numbers
from streamer.engine.text.written_form import WrittenToken, settled_tokens, written_tokens
from tests.engine.text.written_form_table import ROWS

VOCABULARY = sorted(
    {word for spoken, _ in ROWS for word in spoken.split()}
    | numbers.BEGINNINGS
    | numbers.MULTIPLIERS
    | {"", "'", "I", "May", "21", "ß", "一", "o\u2019clock", "twenty-", "p.m.", "a.m.", "am", "-"}
)


def text(words: str, *, begins: bool = False) -> str:
    return " ".join(piece.text for piece in written_tokens(words.split(), begins=begins))


def sentences(number: int, longest: int) -> Iterator[list[str]]:
    """Words of the table in random order, and rows of it one after another."""
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
    assert written_tokens(["it", "costs", "five", "dollars", "and", "ten", "cents", "today"]) == [
        WrittenToken("It", 0, 1),
        WrittenToken("costs", 1, 2),
        WrittenToken("$5.10", 2, 7),
        WrittenToken("today", 7, 8),
    ]


def test_pieces_cover_all_words() -> None:
    """For any words the tokens are in order and without gaps, and single words are kept."""
    for words in sentences(1000, 24):
        pieces = written_tokens(words)
        assert [piece.first for piece in pieces] == [0, *(piece.end for piece in pieces)][: len(pieces)]
        assert (pieces[-1].end if pieces else 0) == len(words)
        assert all(piece.first < piece.end for piece in pieces)


def test_what_is_written_stays_written() -> None:
    """The written form of a written form is the same."""
    for words in sentences(2000, 12):
        once = " ".join(piece.text for piece in written_tokens(words, begins=False))
        assert text(once) == " ".join(once.split())


def test_settled_pieces_never_change() -> None:
    """Settled tokens stay the same, whatever follows the stable words."""
    dice = random.Random(6)
    shown = 0
    for words in sentences(600, 10):
        stable = dice.randint(0, len(words))
        pieces = written_tokens(words)
        count = settled_tokens(words, stable)
        shown += count
        for _ in range(10):
            continuation = dice.choices(VOCABULARY, k=dice.randint(0, 6))
            assert written_tokens([*words[:stable], *continuation])[:count] == pieces[:count]
    assert shown > 800


def test_any_single_word_may_follow_a_settled_piece() -> None:
    """Settled tokens stay the same for each row cut anywhere and each word of the vocabulary after it."""
    for spoken, _ in ROWS[::16]:
        words = spoken.split()
        for stable in range(len(words) + 1):
            count = settled_tokens(words, stable, begins=False)
            before = written_tokens(words, begins=False)[:count]
            for word in VOCABULARY:
                assert written_tokens([*words[:stable], word], begins=False)[:count] == before


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
    assert settled_tokens(words, len(words)) == pieces


def test_no_number_grows_for_ever() -> None:
    """Dictated digits settle while they are dictated."""
    words = ["seven", "five"] * 30
    assert settled_tokens(words, len(words)) == len(words) // numbers.LONGEST_RUN - 1
    assert all(piece.end - piece.first <= numbers.LONGEST_RUN for piece in written_tokens(words))


def test_stable_beyond_the_words() -> None:
    """A stable count out of range counts as all of the words or none."""
    assert settled_tokens(["the", "cat"], 9) == 2
    assert settled_tokens(["the", "cat"], -1) == 0
    assert settled_tokens([], 0) == 0
