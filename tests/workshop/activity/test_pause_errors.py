"""Errors at the edges of utterances."""

from __future__ import annotations

from workshop.activity.pause_errors import errors_by_word


def test_errors_belong_to_words() -> None:
    """An insertion belongs to the word before it; one before the first word belongs to no word."""
    said = ["a", "good", "day"]
    assert errors_by_word(said, said) == [0, 0, 0, 0]
    assert errors_by_word(said, ["oh", "a", "good", "day"]) == [1, 0, 0, 0]
    assert errors_by_word(said, ["a", "bad", "day", "to"]) == [0, 0, 1, 1]
    assert errors_by_word(said, ["a", "day"]) == [0, 0, 1, 0]
