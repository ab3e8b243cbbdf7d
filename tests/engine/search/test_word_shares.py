"""What a beam believed of a word while it was open."""

from __future__ import annotations

import pytest

from streamer.engine.search.search import Word
from streamer.engine.search.word_shares import WordShares, shares

ONE, LATER, OTHER = Word("one", 0, 5, 0.9), Word("one", 2, 6, 0.9), Word("won", 0, 5, 0.9)
FAR = Word("one", 40, 45, 0.9)


def test_a_share_is_the_part_of_the_mass_that_has_the_word_about_there() -> None:
    """Another start is the same word, another word or another place is not."""
    assert shares((ONE,), [((ONE,), 1.0), ((LATER,), 1.0), ((OTHER,), 1.0), ((FAR,), 1.0)]) == [0.5]
    assert shares((ONE, FAR), [((ONE, FAR), 3.0), ((ONE,), 1.0)]) == [1.0, 0.75]
    assert shares((), []) == []


def test_of_a_word_the_mean_is_kept() -> None:
    """Over the steps in which it was the best one and open, and now, whichever of its starts is asked for."""
    beliefs = WordShares()
    beliefs.note([(ONE,), (OTHER,)], [1.0, 3.0])
    beliefs.note([(LATER,), (ONE,), (OTHER,)], [1.0, 1.0, 2.0])
    assert beliefs.of(ONE, 1.0) == pytest.approx((0.25 + 0.5 + 1.0) / 3)
    assert beliefs.of(FAR, 1.0) == 1.0
    assert beliefs.of(OTHER, 0.5) == 0.5


def test_rows_without_mass_do_not_count() -> None:
    """They are no hypotheses any more."""
    beliefs = WordShares()
    beliefs.note([(ONE,), (OTHER,)], [1.0, 0.0])
    assert beliefs.of(ONE, 1.0) == 1.0
