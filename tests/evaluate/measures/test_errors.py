"""Alignment of words, against counts by hand."""

from __future__ import annotations

import random

import pytest

from streamer.evaluate.measures.errors import DELETED, INSERTED, RIGHT, SUBSTITUTED, Errors, aligned, count


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("a b c", "a b c", Errors(3, 0, 0, 0, 5, 0)),
        ("a b c", "a x c", Errors(3, 1, 0, 0, 5, 1)),
        ("a b c", "a c", Errors(3, 0, 0, 1, 5, 2)),
        ("a c", "a b b c", Errors(2, 0, 2, 0, 3, 4)),
        ("a b", "", Errors(2, 0, 0, 2, 3, 3)),
        ("the cat sat", "cat sat down", Errors(3, 0, 1, 1, 11, 8)),
    ],
)
def test_counts(reference: str, hypothesis: str, expected: Errors) -> None:
    """Of each kind in words, and together in characters with the spaces between them."""
    assert count(reference.split(), hypothesis.split()) == expected


def test_words_side_by_side() -> None:
    """Every word of both stands in exactly one place, in order."""
    pairs = aligned(["the", "cat", "sat"], ["cat", "sat", "down"])
    assert [(pair.kind, pair.reference, pair.hypothesis) for pair in pairs] == [
        (DELETED, 0, None),
        (RIGHT, 1, 0),
        (RIGHT, 2, 1),
        (INSERTED, None, 2),
    ]


def test_the_least_number_of_errors() -> None:
    """Over random texts: the textbook's distance, every word in its place, and right ones are equal."""
    generator = random.Random(0)
    for _ in range(200):
        reference, hypothesis = ([generator.choice("abc") for _ in range(generator.randrange(9))] for _ in range(2))
        pairs = aligned(reference, hypothesis)
        assert [pair.reference for pair in pairs if pair.reference is not None] == list(range(len(reference)))
        assert [pair.hypothesis for pair in pairs if pair.hypothesis is not None] == list(range(len(hypothesis)))
        for pair in pairs:
            if pair.kind in (RIGHT, SUBSTITUTED):
                assert (reference[pair.reference] == hypothesis[pair.hypothesis]) == (pair.kind == RIGHT)
        errors = count(reference, hypothesis).word_errors
        assert errors == sum(pair.kind != RIGHT for pair in pairs) == textbook(reference, hypothesis)


def test_counts_add_up() -> None:
    """Field by field."""
    assert Errors(1, 2, 3, 4, 5, 6) + Errors(10, 20, 30, 40, 50, 60) == Errors(11, 22, 33, 44, 55, 66)


def textbook(first: list[str], second: list[str]) -> int:
    """Levenshtein's distance, row by row."""
    row = list(range(len(second) + 1))
    for place, word in enumerate(first, start=1):
        above, row = row, [place]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (word != other)))
    return row[-1]
