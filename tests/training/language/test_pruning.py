"""Pruning removes what costs least, and the result is still a model."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.training.language import mixture
from streamer.training.language.ngram_counts import BITS
from streamer.training.language.pruning import losses, prune
from tests.training.language.made_up_text import TRIPLES, assert_sums_to_one, mixed


def test_the_loss_of_an_ngram_is_the_divergence_that_it_causes() -> None:
    """The computed cost of a trigram equals the divergence between the models with and without it."""
    model, parts, weights = mixed()
    shares = mixture.context_weights(parts, weights, model.bigrams)
    found = losses(model.trigram, model.suffixes, model.contexts, shares)
    before = model.probabilities(TRIPLES)
    everything = np.ones(len(model.bigrams), dtype=bool)
    for dropped in range(0, len(model.trigrams), 7):
        kept = np.ones(len(model.trigrams), dtype=bool)
        kept[dropped] = False
        after = model.keeping(everything, kept).probabilities(TRIPLES)
        context = int(model.trigrams[dropped]) >> BITS
        rows = ((TRIPLES[:, 0].astype(np.int64) << BITS) | TRIPLES[:, 1]) == context
        rows &= before > 0
        divergence = (before[rows] * np.log(before[rows] / after[rows])).sum()
        assert found[dropped] == pytest.approx(shares[model.contexts[dropped]] * divergence, abs=1e-12)


def test_a_pruned_model_fits_and_holds_together() -> None:
    """A pruned model keeps to the limit, keeps the contexts of its n-grams, and sums to one."""
    model, parts, weights = mixed()
    shares = mixture.context_weights(parts, weights, model.bigrams)
    sizes = []
    for limit in (10_000, 150, 60, 0):
        pruned = prune(model, shares, lambda bigrams, trigrams: bigrams + trigrams, limit)
        assert len(pruned.bigrams) + len(pruned.trigrams) <= limit
        assert np.isin(pruned.trigrams >> BITS, pruned.bigrams).all()
        assert_sums_to_one(pruned.probabilities(TRIPLES))
        sizes.append(len(pruned.bigrams) + len(pruned.trigrams))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == len(model.bigrams) + len(model.trigrams)
    assert sizes[1] > 120
    assert sizes[3] == 0
