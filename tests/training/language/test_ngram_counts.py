"""Counts of n-grams, and the choice of the vocabulary."""

from __future__ import annotations

from collections import Counter

import numpy as np

from streamer.training.language.ngram_counts import BITS, RESERVED, choose_vocabulary, count
from tests.training.language.made_up_text import random_text


def test_counts_are_those_of_a_counter() -> None:
    """Bigrams and trigrams are counted within sentences, and never across them."""
    found = count(random_text(5))
    pairs: Counter[int] = Counter()
    triples: Counter[int] = Counter()
    text = random_text(5).tolist()
    for first, second, third in zip(text, [*text[1:], 1], [*text[2:], 1, 1], strict=True):
        if first != 2:
            pairs[first << BITS | second] += 1
            if second != 2:
                triples[first << 2 * BITS | second << BITS | third] += 1
    assert dict(zip(found.bigrams.tolist(), found.bigram_counts.tolist(), strict=True)) == pairs
    assert dict(zip(found.trigrams.tolist(), found.trigram_counts.tolist(), strict=True)) == triples
    assert (np.diff(found.trigrams) > 0).all()


def test_the_vocabulary_is_the_words_of_most_weight() -> None:
    """The likeliest words follow the reserved ones; words without weight are left out."""
    words = ["<unk>", "rare", "often", "never", "some"]
    weights = np.array([9.0, 0.1, 0.7, 0.0, 0.2])
    assert choose_vocabulary(words, weights, 5) == [*RESERVED, "often", "some"]
    assert choose_vocabulary(words, weights, 99) == [*RESERVED, "often", "some", "rare"]
