"""How much of a beam agreed on a word while it was open."""

from __future__ import annotations

import pytest

from streamer.engine.search import word_agreement
from streamer.engine.search.search import HypothesisWord
from streamer.engine.search.word_agreement import AgreementShares, WordAgreement, is_same_word

ONE, LATER, OTHER = HypothesisWord("one", 0, 5, 0.9), HypothesisWord("one", 2, 6, 0.9), HypothesisWord("won", 0, 5, 0.9)
FAR = HypothesisWord("one", 40, 45, 0.9)


def test_a_share_is_the_part_of_the_mass_that_has_the_word_about_there() -> None:
    """With another start it is still the same word; with another text or place it is not."""
    assert AgreementShares([((ONE,), 1.0), ((LATER,), 1.0), ((OTHER,), 1.0), ((FAR,), 1.0)]).of(ONE) == 0.5
    shares = AgreementShares([((ONE, FAR), 3.0), ((ONE,), 1.0)])
    assert [shares.of(ONE), shares.of(FAR), shares.of(OTHER)] == [1.0, 0.75, 0.0]
    assert AgreementShares([]).of(ONE) == 0.0


def test_of_a_word_the_mean_is_kept() -> None:
    """The share of a word is the mean over the present step and the steps in which the word was best and open."""
    agreement = WordAgreement()
    agreement.note([(ONE,), (OTHER,)], [1.0, 3.0])
    agreement.note([(LATER,), (ONE,), (OTHER,)], [1.0, 1.0, 2.0])
    assert agreement.of(ONE, 1.0) == pytest.approx((0.25 + 0.5 + 1.0) / 3)
    assert agreement.of(FAR, 1.0) == 1.0
    assert agreement.of(OTHER, 0.5) == 0.5


def test_rows_without_mass_do_not_count() -> None:
    """Rows of a beam that are not used do not count."""
    agreement = WordAgreement()
    agreement.note([(ONE,), (OTHER,)], [1.0, 0.0])
    assert agreement.of(ONE, 1.0) == 1.0


def test_a_word_is_compared_with_those_of_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long segment takes as many comparisons as it has words, however many hypotheses there are."""
    compared = list[str]()

    def noted(one: HypothesisWord, other: HypothesisWord) -> bool:
        compared.append(one.text)
        return is_same_word(one, other)

    monkeypatch.setattr(word_agreement, "is_same_word", noted)
    words = tuple(HypothesisWord(f"word {number}", 5 * number, 5 * number + 4, 0.9) for number in range(300))
    agreement = WordAgreement()
    for number in range(0, 300, 10):
        rows = [words[number : number + 10], *(words[number : number + size] for size in range(10))]
        agreement.note(rows, [1.0] * len(rows))
    assert [agreement.of(word, 1.0) for word in words[:2]] == [pytest.approx(1 - 0.5 / 11), pytest.approx(1 - 1 / 11)]
    assert all(agreement.of(word, 1.0) > 0.5 for word in words)
    assert len(compared) < 2 * len(words)
