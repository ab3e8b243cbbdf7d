"""Singular and plural in sentences."""

from __future__ import annotations

import pytest

from streamer.text.counts import counted, noun, part_of


@pytest.mark.parametrize(("number", "words"), [(0, "0 sessions"), (1, "1 session"), (2, "2 sessions")])
def test_counts(number: int, words: str) -> None:
    """Only one thing is a singular."""
    assert counted(number, "session") == words
    assert f"{number} {noun(number, 'session')}" == words


def test_parts() -> None:
    """How many of all things: the word follows the number of all."""
    assert (part_of(1, 2, "word"), part_of(0, 1, "word")) == ("1 of 2 words", "0 of 1 word")
