"""How much of a beam agreed on a word while it was open."""

from __future__ import annotations

import pytest

from streamer.engine.search.search import HypothesisWord
from streamer.engine.search.word_agreement import AgreementShares, WordAgreement

ONE, LATER, OTHER = HypothesisWord("one", 0, 5, 0.9), HypothesisWord("one", 2, 6, 0.9), HypothesisWord("won", 0, 5, 0.9)
FAR = HypothesisWord("one", 40, 45, 0.9)


def test_a_share_is_the_part_of_the_mass_that_has_the_word_about_there() -> None:
    """Another start is still the same word; another text or another place is not."""
    assert AgreementShares([((ONE,), 1.0), ((LATER,), 1.0), ((OTHER,), 1.0), ((FAR,), 1.0)]).of(ONE) == 0.5
    shares = AgreementShares([((ONE, FAR), 3.0), ((ONE,), 1.0)])
    assert [shares.of(ONE), shares.of(FAR), shares.of(OTHER)] == [1.0, 0.75, 0.0]
    assert AgreementShares([]).of(ONE) == 0.0


def test_of_a_word_the_mean_is_kept() -> None:
    """The mean goes over the steps in which the word was best and open, and now, whatever its start."""
    agreement = WordAgreement()
    agreement.note([(ONE,), (OTHER,)], [1.0, 3.0])
    agreement.note([(LATER,), (ONE,), (OTHER,)], [1.0, 1.0, 2.0])
    assert agreement.of(ONE, 1.0) == pytest.approx((0.25 + 0.5 + 1.0) / 3)
    assert agreement.of(FAR, 1.0) == 1.0
    assert agreement.of(OTHER, 0.5) == 0.5


def test_rows_without_mass_do_not_count() -> None:
    """Dead rows of a beam have no say."""
    agreement = WordAgreement()
    agreement.note([(ONE,), (OTHER,)], [1.0, 0.0])
    assert agreement.of(ONE, 1.0) == 1.0
