"""Precision and recall of marks and capitals."""

from __future__ import annotations

import math

import pytest

from streamer.engine.punctuation.marks import Case, Mark
from streamer.training.punctuation.measurement.mark_scores import CAPITAL, MarkScores, WrittenWord, written_words


def test_f1_counts_what_was_found_and_what_was_not() -> None:
    """One right comma, one too many, one too few."""
    scores = MarkScores()
    for found, expected in ((Mark.COMMA, Mark.COMMA), (Mark.COMMA, Mark.NONE), (Mark.NONE, Mark.COMMA)):
        scores.add(WrittenWord(found, False), WrittenWord(expected, False))
    assert scores.f1("COMMA") == pytest.approx(0.5)
    assert math.isnan(scores.f1(CAPITAL))


def test_what_nobody_knows_does_not_count() -> None:
    """Neither a mark nor a capital."""
    scores = MarkScores()
    scores.add(WrittenWord(Mark.FULL_STOP, True), WrittenWord(None, None))
    assert not scores.found
    scores.add(WrittenWord(None, True), WrittenWord(Mark.FULL_STOP, True))
    assert scores.f1(CAPITAL) == 1.0


def test_a_sentence_begins_with_a_capital() -> None:
    """The first word of a sentence has a capital; after an unknown mark this is unknown."""
    marks = [Mark.NONE, Mark.QUESTION, Mark.COMMA, None, Mark.NONE]
    cases = [Case.LOWER, Case.ALL, Case.LOWER, None, Case.LOWER]
    assert [word.capital for word in written_words(marks, cases)] == [True, True, True, None, False]
