"""Written text becomes phones, and the n-gram over them is a probability distribution."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from tests.workshop.phones.all_paths import BOUNDARY, SEQUENCES, UNITS
from workshop.acoustic import units
from workshop.data.corpus import CorpusError
from workshop.language.pronunciation import Pronunciations
from workshop.phones.phone_ngram import ORDERS, estimate, written_phones


@pytest.mark.parametrize("order", ORDERS)
def test_the_weights_of_every_context_sum_to_one(order: int) -> None:
    """The weights sum to one, also after contexts that were never seen; the blank never follows."""
    weights = estimate(SEQUENCES, UNITS, order).weights
    assert weights.shape == (UNITS,) * (order - 1) + (UNITS + 1,)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert not weights[..., 0].any()


def test_the_estimate_is_kneser_and_neys() -> None:
    """One bigram, computed by hand: its discount, and the number of different units before it."""
    # After a beginning: 1 twice, 2 once. After 1: 2 twice, the end once. After 2: the end twice, 1 once.
    weights = estimate([[1, 2], [1, 2], [2, 1]], 3, 2).weights
    discount = 3 / (3 + 2 * 3)
    before = torch.tensor([0.0, 2.5, 2.5, 2.5]).double()  # each has two different units before it
    shorter = before / before.sum()
    assert weights[1, 2] == pytest.approx((2 - discount) / 3 + discount * 2 / 3 * shorter[2].item())
    assert weights[1, 3] == pytest.approx((1 - discount) / 3 + discount * 2 / 3 * shorter[3].item())
    assert weights[1, 1] == pytest.approx(discount * 2 / 3 * shorter[1].item())


def test_a_longer_context_is_likelier() -> None:
    """An n-gram with a longer context makes its own text likelier; a sequence has the product of its weights."""
    ngrams = [estimate(SEQUENCES, UNITS, order) for order in ORDERS]
    totals = [sum(ngram.log_weight(sequence) for sequence in SEQUENCES) for ngram in ngrams]
    assert totals == sorted(totals)
    weights = ngrams[0].weights
    product = weights[0, 1] * weights[1, 3] * weights[3, UNITS]
    assert ngrams[0].log_weight([1, 3]) == pytest.approx(math.log(product))


def test_a_free_unit_costs_nothing_and_is_no_context() -> None:
    """A sequence with boundaries has the weight of the same sequence without them."""
    for order in ORDERS:
        ngram = estimate(SEQUENCES, UNITS, order, free=BOUNDARY)
        without = estimate([[unit for unit in each if unit != BOUNDARY] for each in SEQUENCES], UNITS, order)
        assert ngram.log_weight([1, 2, 1]) == pytest.approx(without.log_weight([1, 2, 1]))
        assert ngram.log_weight([1, 2, BOUNDARY]) > without.log_weight([1, 2]) - 2
        weights = ngram.weights.view(-1, UNITS, UNITS + 1)
        assert weights[:, [1, 2], BOUNDARY].eq(1).all()
        assert not weights[:, [0, BOUNDARY], BOUNDARY].any()


def test_other_orders_are_refused() -> None:
    """Other orders are refused with a list of the possible ones."""
    with pytest.raises(ValueError, match=r"one of \(2, 3, 4\), not 5"):
        estimate(SEQUENCES, UNITS, 5)


@pytest.fixture(scope="module")
def pronunciations() -> Pronunciations:
    """Provide the shipped pronunciations."""
    return Pronunciations.load()


def test_each_sentence_has_its_phones(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """Each sentence is one sequence, with a boundary after every word; one with an unspeakable word is left out."""
    text = tmp_path / "text.txt"
    text.write_text("A cat saw 2 dogs. The cat ran.\nThe x9z ran.\n", encoding="utf-8")
    found = [[units.PHONE_UNITS[unit] for unit in sentence] for sentence in written_phones([text], pronunciations)]
    assert [" ".join(sentence) for sentence in found] == [
        "AH | K AE T | S AO | T UW | D AA G Z |",
        "DH AH | K AE T | R AE N |",
    ]


def test_text_makes_the_n_gram_wider(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """Phones that only the text has are likelier with it."""
    text = tmp_path / "text.txt"
    text.write_text("The dog barked.\n" * 3, encoding="utf-8")
    cat = [units.PHONE_NUMBER[phone] for phone in ("K", "AE", "T", units.BOUNDARY)]
    [dog, *_] = sequences = list(written_phones([text], pronunciations))
    alone, both = (estimate(found, len(units.PHONE_UNITS), 3) for found in ([cat], [cat, *sequences]))
    assert both.log_weight(dog) > alone.log_weight(dog)


def test_a_text_that_cannot_be_read_is_named(tmp_path: Path, pronunciations: Pronunciations) -> None:
    """A missing text is an error of one sentence."""
    with pytest.raises(CorpusError, match=r"nothing\.txt cannot be read"):
        list(written_phones([tmp_path / "nothing.txt"], pronunciations))
