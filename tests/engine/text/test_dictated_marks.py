"""Dictated marks: their written form, and when it is settled."""

from __future__ import annotations

import pytest

from streamer.engine.text.written_form import Form, read_tokens, settled_tokens, written_tokens
from streamer.text.joining import joined

DICTATED = Form(dictation=True)


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("hello comma how are you question mark fine full stop", "Hello, how are you? Fine."),
        ("stop exclamation mark go exclamation point", "Stop! Go!"),
        ("two things colon salt semicolon pepper semi colon oil period", "Two things: salt; pepper; oil."),
        ("dear ada comma new line thanks full stop new paragraph bye", "Dear ada,\nThanks.\n\nBye"),
        ("new line", "\n"),
        ("comma and so on", ", And so on"),
        ("the full story of a new year", "The full story of a new year"),
        ("twenty comma five", "20, five"),
        ("it is five p m full stop and then", "It is 5 PM. And then"),
    ],
)
def test_what_is_written(said: str, written: str) -> None:
    """A mark joins the word before it, and after the end of a sentence the next word has a capital."""
    tokens = written_tokens(read_tokens(said.split(), DICTATED), begins=True)
    assert joined([token.text for token in tokens]) == written


def test_it_is_off_by_default() -> None:
    """Without the option, the words of marks stay words."""
    tokens = written_tokens(read_tokens(["hello", "comma"], Form()), begins=False)
    assert [token.text for token in tokens] == ["hello", "comma"]


def test_a_mark_belongs_to_its_word() -> None:
    """The token has the spoken words of both; a line break is a token of its own."""
    tokens = written_tokens(read_tokens(["hello", "full", "stop", "new", "line", "so"], DICTATED), begins=False)
    assert [(token.text, token.first, token.end) for token in tokens] == [("hello.", 0, 3), ("\n", 3, 5), ("So", 5, 6)]


def test_a_word_waits_for_the_mark_that_may_follow() -> None:
    """A word is settled when the next one is known, or two if that may begin a mark."""
    words = ["hello", "full", "stop", "so"]
    counts = [settled_tokens(read_tokens(words[:known], DICTATED), known) for known in range(5)]
    assert counts == [0, 0, 0, 1, 1]
