"""The options of a session that exclude each other."""

from __future__ import annotations

import pytest

from streamer.base.limits import READER
from streamer.base.options import contradiction


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, False),
        ({"second_pass": True, "settle_ms": 0, "stability": "medium"}, False),
        ({"second_pass": False, "settle_ms": 500, "stability": "high"}, False),
        ({"second_pass": True, "settle_ms": 500}, True),
        ({"second_pass": True, "stability": "high"}, True),
        ({"second_pass": READER, "settle_ms": 0, "stability": "medium"}, False),
        ({"second_pass": READER, "settle_ms": 500}, True),
        ({"second_pass": READER, "stability": "high"}, True),
    ],
)
def test_a_second_pass_settles_no_words_early(options: dict[str, object], wrong: bool) -> None:
    """A second pass may change any word, so a wish for words that do not change contradicts it."""
    assert bool(contradiction(options)) == wrong
