"""Interpolated modified Kneser-Ney estimates (Chen and Goodman 1998), in parts, so that sources can be mixed.

With h the context of the word w, P(w | h) = term(h, w) + gamma(h) * P(w | shorter h). There is a term for every n-gram
that was seen, and a gamma for every context that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamer.training.language.ngram_counts import BITS, MASK, START_ID, Counts, Floats, Keys


@dataclass
class KneserNey:
    """The estimate of one source."""

    unigrams: Floats
    bigrams: Keys
    bigram_terms: Floats
    bigram_gammas: Floats  # by word
    trigrams: Keys
    trigram_terms: Floats
    contexts: Keys
    context_gammas: Floats
    context_counts: Keys


def estimate(counts: Counts, vocabulary: int) -> KneserNey:
    """Estimate the model of a source over this many words."""
    first, second = counts.bigrams >> BITS, counts.bigrams & MASK
    # A lower order counts the different words before an n-gram. Nothing stands before the start of a sentence.
    before = np.bincount(np.searchsorted(counts.bigrams, _suffixes(counts.trigrams)), minlength=len(counts.bigrams))
    adjusted = np.where(first == START_ID, counts.bigram_counts, before)
    unigram_counts = np.bincount(second, minlength=vocabulary)

    terms, _, gammas = _discounted(unigram_counts, np.zeros(vocabulary, dtype=np.int64), 1)
    unigrams = terms + gammas[0] / (vocabulary - 1)
    unigrams[START_ID] = 0.0
    bigram_terms, _, bigram_gammas = _discounted(adjusted, first, vocabulary)
    contexts, numbers = np.unique(counts.trigrams >> BITS, return_inverse=True)
    trigram_terms, totals, context_gammas = _discounted(counts.trigram_counts, numbers, len(contexts))
    return KneserNey(
        unigrams,
        counts.bigrams,
        bigram_terms,
        bigram_gammas,
        counts.trigrams,
        trigram_terms,
        contexts,
        context_gammas,
        totals,
    )


def _suffixes(trigrams: Keys) -> Keys:
    return trigrams & ((1 << 2 * BITS) - 1)


def _discounted(counts: Keys, contexts: Keys, number: int) -> tuple[Floats, Keys, Floats]:
    """Return the discounted relative frequencies, the total of each context, and its share that the discounts freed."""
    discounts = discount(counts)[np.minimum(counts, 3)]
    totals = np.bincount(contexts, weights=counts, minlength=number).astype(np.int64)
    left = np.bincount(contexts, weights=discounts, minlength=number)
    seen = np.maximum(totals, 1)
    return (counts - discounts) / seen[contexts], totals, np.where(totals > 0, left / seen, 1.0)


def discount(counts: Keys) -> Floats:
    """Return the discounts of counts of 0, 1, 2, and 3 or more."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == number)) for number in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return np.array([0.0, 0.5, 0.75, 0.75])  # too little text to tell
    y = n1 / (n1 + 2 * n2)
    discounts = [0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3]
    return np.clip(discounts, 0.0, [0.0, 0.95, 1.9, 2.9])
