"""Letters and digits that are said one by one."""

from __future__ import annotations

import pytest

from streamer.engine.text.written_form import Form, read_tokens
from tests.engine.text.plain_form import settled, written


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("the u s and the u k", "the U.S. and the U.K."),
        ("the u n in washington d c", "the U.N. in washington D.C."),
        ("a ph d", "a ph d"),
        ("a p h d on t v in the e u", "a PhD on TV in the EU"),
        ("a t v show", "a TV show"),
        ("the f b i and i b m", "the FBI and IBM"),
        ("the f b i i think", "the FBI I think"),
        ("the f b i one day", "the FBI one day"),
        ("the c i a", "the CIA"),
        ("plan b i think", "plan b I think"),
        ("vitamin b twelve", "vitamin b 12"),
        ("i a m here", "I a m here"),
        ("my name is b r a m a n i a n", "my name is BRAMANIAN"),
        ("h e double l o", "HELLO"),
        ("double oh seven", "007"),
        ("oh b c d e", "oh BCDE"),
    ],
)
def test_letters_in_a_row(said: str, expected: str) -> None:
    """Three or more letters in a row are one word; letters that are words stay words where they may be."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("b seven k two nine", "B7K29"),
        ("b a two four nine i think", "BA249 I think"),
        ("b seven o nine", "B709"),
        ("s w one a two a a", "SW1A2AA"),
        ("seven a b c one two three", "7ABC123"),
        ("a b c five hundred", "ABC 500"),
        ("a b c five point two", "ABC 5.2"),
        ("five five five one two three four", "5551234"),
        ("gate b two", "gate b two"),
        ("at five oh five p m", "at 5:05 PM"),
    ],
)
def test_codes(said: str, expected: str) -> None:
    """Letters with digits among them are one code, but a number stays a number."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


def test_a_long_name_settles_in_time() -> None:
    """After twenty letters the first part of a spelled name is settled, though the name goes on."""
    words = ["b", "c"] * 15
    assert [token.text for token in read_tokens(words, Form())] == ["BC" * 10, "BC" * 5]
    assert [settled(words, stable) for stable in (19, 21, 30)] == [0, 1, 1]
