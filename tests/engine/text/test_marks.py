"""Words with their capitals."""

from __future__ import annotations

import pytest

from streamer.engine.text.marks import Case, Mark


@pytest.mark.parametrize(
    ("word", "case", "begins", "written"),
    [
        ("house", Case.LOWER, False, "house"),
        ("house", Case.LOWER, True, "House"),
        ("london", Case.FIRST, False, "London"),
        ("i'm", Case.FIRST, False, "I'm"),
        ("o'brien", Case.FIRST, False, "O'Brien"),
        ("mccarthy", Case.FIRST, True, "McCarthy"),
        ("nasa", Case.ALL, False, "NASA"),
        ("nasa's", Case.ALL, False, "NASA's"),
        ("'em", Case.LOWER, False, "'em"),
        ("", Case.FIRST, True, ""),
    ],
)
def test_a_word_is_written_with_its_capitals(word: str, case: Case, begins: bool, written: str) -> None:
    """A word is written with its own capitals, and with that of the first word of a sentence."""
    assert case.written(word, begins) == written


def test_two_marks_end_a_sentence() -> None:
    """A full stop and a question mark end a sentence, and a comma does not."""
    assert [mark.ends_sentence for mark in Mark] == [False, False, True, True]
