"""A mixture of models is their weighted sum, and its weights can be found."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from streamer.training.language import mixture
from streamer.training.language.ngram_counts import BITS
from tests.training.language.made_up_text import TRIPLES, assert_sums_to_one, mixed, random_text


def test_a_mixture_is_the_weighted_sum_where_anything_was_seen() -> None:
    """The mixture agrees with its parts at every n-gram that it has, and sums to one everywhere."""
    model, parts, weights = mixed()
    keys = (TRIPLES[:, 0].astype(np.int64) << 2 * BITS) | (TRIPLES[:, 1].astype(np.int64) << BITS) | TRIPLES[:, 2]
    held = np.isin(keys, model.trigrams)
    expected = sum(w * mixture.probabilities(part, TRIPLES) for w, part in zip(weights, parts, strict=True))
    found = model.probabilities(TRIPLES)
    assert 0 < held.sum() < len(held)
    assert found[held] == pytest.approx(np.asarray(expected)[held])
    assert_sums_to_one(found)


def test_weights_are_found_again() -> None:
    """The weights of a mixture are found from rows that were drawn from it."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(30, 0.3), size=3)
    truth = np.array([0.6, 0.3, 0.1])
    drawn = rng.choice(30, size=20_000, p=truth @ parts)
    assert mixture.weigh(parts[:, drawn].T, np.ones(len(drawn))) == pytest.approx(truth, abs=0.03)
    heavy = np.where(drawn < 15, 1.0, 0.0)
    assert mixture.weigh(parts[:, drawn].T, heavy) == pytest.approx(
        mixture.weigh(parts[:, drawn[drawn < 15]].T, np.ones(int(heavy.sum())))
    )


def test_contexts_are_weighed_by_how_often_they_occur() -> None:
    """The share of a context is the weighted mean of its shares in the texts."""
    model, parts, weights = mixed()
    found = mixture.context_weights(parts, weights, model.bigrams)
    assert found.sum() == pytest.approx(1)
    text = random_text(0, 30).tolist()
    pairs = Counter(pair for pair in itertools.pairwise(text) if 2 not in pair)
    pair = 3 << BITS | 3
    own = mixture.context_weights(parts[:1], np.ones(1), model.bigrams)
    assert own[np.searchsorted(model.bigrams, pair)] == pytest.approx(pairs[3, 3] / sum(pairs.values()))
