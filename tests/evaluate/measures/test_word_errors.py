"""Pairing of words and counting of errors."""

from __future__ import annotations

import random

import pytest

from streamer.evaluate.measures.word_errors import (
    DELETED,
    INSERTED,
    RIGHT,
    SUBSTITUTED,
    ErrorCounts,
    count_errors,
    pair_words,
)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("a b c", "a b c", ErrorCounts(3, 0, 0, 0, 5, 0)),
        ("a b c", "a x c", ErrorCounts(3, 1, 0, 0, 5, 1)),
        ("a b c", "a c", ErrorCounts(3, 0, 0, 1, 5, 2)),
        ("a c", "a b b c", ErrorCounts(2, 0, 2, 0, 3, 4)),
        ("a b", "", ErrorCounts(2, 0, 0, 2, 3, 3)),
        ("the cat sat", "cat sat down", ErrorCounts(3, 0, 1, 1, 11, 8)),
    ],
)
def test_counts(reference: str, hypothesis: str, expected: ErrorCounts) -> None:
    """Word errors are counted by kind, character errors together, including spaces."""
    assert count_errors(reference.split(), hypothesis.split()) == expected


def test_words_side_by_side() -> None:
    """Every word of both texts is in exactly one pair, in order."""
    pairs = pair_words(["the", "cat", "sat"], ["cat", "sat", "down"])
    assert [(pair.kind, pair.reference, pair.hypothesis) for pair in pairs] == [
        (DELETED, 0, None),
        (RIGHT, 1, 0),
        (RIGHT, 2, 1),
        (INSERTED, None, 2),
    ]


def test_the_least_number_of_errors() -> None:
    """For random texts the errors are the Levenshtein distance, and words paired as right are equal."""
    generator = random.Random(0)
    for _ in range(200):
        reference, hypothesis = ([generator.choice("abc") for _ in range(generator.randrange(9))] for _ in range(2))
        pairs = pair_words(reference, hypothesis)
        assert [pair.reference for pair in pairs if pair.reference is not None] == list(range(len(reference)))
        assert [pair.hypothesis for pair in pairs if pair.hypothesis is not None] == list(range(len(hypothesis)))
        for pair in pairs:
            if pair.reference is not None and pair.hypothesis is not None:
                assert pair.kind in (RIGHT, SUBSTITUTED)
                assert (reference[pair.reference] == hypothesis[pair.hypothesis]) == (pair.kind == RIGHT)
        errors = count_errors(reference, hypothesis).word_errors
        assert errors == sum(pair.kind != RIGHT for pair in pairs) == textbook(reference, hypothesis)


def test_counts_add_up() -> None:
    """Counts are added field by field."""
    assert ErrorCounts(1, 2, 3, 4, 5, 6) + ErrorCounts(10, 20, 30, 40, 50, 60) == ErrorCounts(11, 22, 33, 44, 55, 66)


def textbook(first: list[str], second: list[str]) -> int:
    """Levenshtein's distance, row by row."""
    row = list(range(len(second) + 1))
    for place, word in enumerate(first, start=1):
        above, row = row, [place]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (word != other)))
    return row[-1]
