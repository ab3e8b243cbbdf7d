"""Chooses the n-grams of a small model: those without which it would change most (relative entropy, Stolcke 1998).

How often a context occurs is counted in the texts, because the lower orders of a Kneser-Ney model do not show it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from streamer.training.language.backoff_model import LEAST, BackOffModel
from streamer.training.language.ngram_counts import BITS, MASK, START_ID, Floats, Keys

Choice = npt.NDArray[np.bool_]
# A bigram takes more room than a trigram: it also has a back-off weight.
_BIGRAM_PRICE = 1.2
_ROUNDS = 50


def prune(model: BackOffModel, contexts: Floats, size: Callable[[int, int], int], limit: int) -> BackOffModel:
    """Keep the n-grams that fit. `contexts`: how often each bigram is a context. `size` returns a model's size."""
    last = np.bincount(model.bigrams & MASK, weights=contexts, minlength=len(model.words)).astype(np.float64)
    last[START_ID] = contexts[model.bigrams >> BITS == START_ID].sum()
    trigram_losses = losses(model.trigram, model.suffixes, model.contexts, contexts)
    bigram_losses = losses(model.bigram, model.unigrams[model.bigrams & MASK], model.bigrams >> BITS, last)
    bigram_losses /= _BIGRAM_PRICE

    def choose(threshold: float) -> tuple[Choice, Choice]:
        bigrams, trigrams = bigram_losses >= threshold, trigram_losses >= threshold
        bigrams[model.contexts[trigrams]] = True  # the context of what is kept is kept too
        return bigrams, trigrams

    kept = np.ones(len(bigram_losses), dtype=bool), np.ones(len(trigram_losses), dtype=bool)
    low, high = -40.0, 0.0  # natural logs of the threshold
    if size(len(kept[0]), len(kept[1])) > limit:
        for _ in range(_ROUNDS):
            middle = (low + high) / 2
            chosen = choose(np.exp(middle))
            if size(int(chosen[0].sum()), int(chosen[1].sum())) > limit:
                low = middle
            else:
                high, kept = middle, chosen
        if not high:
            kept = choose(np.inf)
    return model.keeping(*kept)


def losses(values: Floats, lower: Floats, contexts: Keys, weights: Floats) -> Floats:
    """Return what it would cost to drop each n-gram alone: the divergence of the model, times the context's weight.

    `values` are the probabilities of the n-grams. `lower` are those of the shorter n-grams, without back-off weights.
    """
    left = np.maximum(1.0 - np.bincount(contexts, weights=values, minlength=len(weights)), LEAST)[contexts]
    left_below = np.maximum(1.0 - np.bincount(contexts, weights=lower, minlength=len(weights)), LEAST)[contexts]
    before = np.log(left / left_below)
    after = np.log((left + values) / (left_below + lower))
    lost = values * (np.log(values) - np.log(lower) - after) + left * (before - after)
    return np.asarray(weights[contexts] * lost)
