"""The kinds of values of options."""

from __future__ import annotations

from typing import Any

import pytest

from streamer.base.option_kinds import FlagOr


@pytest.mark.parametrize(
    ("value", "right"),
    [(True, True), (False, True), ("a", True), ("b", True), ("c", False), ("", False), (1, False), (None, False)],
)
def test_a_flag_or_one_of_a_few_words(value: Any, right: bool) -> None:
    """It is true, false, or one of the words; no number counts as true."""
    assert FlagOr("a", "b").accepts(value) is right
    assert not FlagOr("a", "b").accepts([value])


def test_what_a_flag_or_a_word_may_be() -> None:
    """People read all values, and programs get them in the schema."""
    assert FlagOr("a").right == 'true, false or "a"'
    assert FlagOr("a", "b").right == 'true, false, "a" or "b"'
    assert FlagOr("a", "b").schema() == {"enum": [True, False, "a", "b"]}
