"""Titles, also those that depend on a name."""

from __future__ import annotations

import pytest

from streamer.engine.punctuation.marks import Case, Mark, MarkedWord
from streamer.engine.search.search import Hotword
from streamer.engine.text.hotword_spelling import spellings_of
from streamer.engine.text.written_form import Form, read_tokens, settled_tokens, written_tokens
from tests.engine.text.plain_form import written


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("mr smith", "Mr. smith"),
        ("mister smith", "mister smith"),
        ("the doctor", "the doctor"),
    ],
)
def test_what_is_written(said: str, expected: str) -> None:
    """Titles that are never words are always abbreviated, and others only before a name."""
    assert " ".join(token.text for token in written(said.split(), begins=False)) == expected


def marks(*cases: Case, mark: Mark = Mark.NONE) -> list[MarkedWord]:
    return [MarkedWord(mark, case) for case in cases]


def test_a_title_before_a_name() -> None:
    """Mister, missus, doctor and saint are abbreviated before a word with a capital, and only there."""
    words = ["mister", "brown", "saw", "the", "doctor", "in", "saint", "louis"]
    lower, first = Case.LOWER, Case.FIRST
    cases = marks(first, first, lower, lower, lower, lower, lower, first)
    found = written_tokens(read_tokens(words, Form()), begins=True, marks=cases)
    assert " ".join(token.text for token in found) == "Mr. Brown saw the doctor in St. Louis"
    cases[4] = MarkedWord(Mark.COMMA, Case.LOWER)
    cases[5] = MarkedWord(Mark.NONE, Case.FIRST)
    found = written_tokens(read_tokens(words, Form()), begins=True, marks=cases)
    assert " ".join(token.text for token in found) == "Mr. Brown saw the doctor, In St. Louis"


def test_a_title_waits_for_the_case_of_the_next_word() -> None:
    """A title is settled when it is decided whether a name follows."""
    read = read_tokens(["so", "doctor", "brown"], Form())
    assert [settled_tokens(read, 3, decided) for decided in range(4)] == [0, 1, 1, 3]
    assert settled_tokens(read_tokens(["so", "doctor"], Form()), 2) == 1


def test_a_title_before_a_hotword() -> None:
    """A hotword with a capital counts as a name after a title."""
    form = Form(spellings_of([Hotword("Quilter"), Hotword("iPhone")], capitals=True))
    for said, expected in (("mister quilter", "Mr. Quilter"), ("doctor iphone", "doctor iPhone")):
        found = written_tokens(read_tokens(said.split(), form), begins=False)
        assert " ".join(token.text for token in found) == expected
