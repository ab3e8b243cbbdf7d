"""Mixes several Kneser-Ney models into one back-off model, with weights that are found on held-out text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.training.language.backoff_model import BackOffModel
from streamer.training.language.kneser_ney import KneserNey
from streamer.training.language.ngram_counts import BITS, MASK, Floats, Keys, look_up
from streamer.training.language.text_sources import Ids

ROUNDS = 100


def probabilities(model: KneserNey, tokens: Ids) -> Floats:
    """Return P of the last word of each row in the model of one source. A row is two words of context and a word."""
    first, second, word = tokens.astype(np.int64).T
    lower = look_up(model.bigrams, model.bigram_terms, (second << BITS) | word, 0.0)
    lower += model.bigram_gammas[second] * model.unigrams[word]
    context = (first << BITS) | second
    gammas = look_up(model.contexts, model.context_gammas, context, 1.0)
    return look_up(model.trigrams, model.trigram_terms, (context << BITS) | word, 0.0) + gammas * lower


def weigh(probabilities: Floats, importance: Floats) -> Floats:
    """Return the weights of the columns with which the rows are most likely (found by EM). Rows count by importance."""
    weights = np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(ROUNDS):
        shares = probabilities * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = importance @ shares / importance.sum()
    return weights


def mix(models: Sequence[KneserNey], weights: Floats, words: list[str]) -> BackOffModel:
    """Return the weighted sum of the models, for every n-gram that is in one of them."""
    bigrams = _union([model.bigrams for model in models])
    trigrams = _union([model.trigrams for model in models])
    contexts = np.searchsorted(bigrams, trigrams >> BITS)
    suffixes = np.searchsorted(bigrams, trigrams & ((1 << 2 * BITS) - 1))
    first, second = bigrams >> BITS, bigrams & MASK
    unigram = sum(weight * model.unigrams for model, weight in zip(models, weights, strict=True))
    bigram, trigram = np.zeros(len(bigrams)), np.zeros(len(trigrams))
    for model, weight in zip(models, weights, strict=True):
        lower = model.bigram_gammas[first] * model.unigrams[second]
        lower[np.searchsorted(bigrams, model.bigrams)] += model.bigram_terms
        gammas = np.ones(len(bigrams))
        gammas[np.searchsorted(bigrams, model.contexts)] = model.context_gammas
        bigram += weight * lower
        trigram += weight * gammas[contexts] * lower[suffixes]
        trigram[np.searchsorted(trigrams, model.trigrams)] += weight * model.trigram_terms
    return BackOffModel(words, np.asarray(unigram), bigrams, bigram, trigrams, trigram)


def context_weights(models: Sequence[KneserNey], weights: Floats, bigrams: Keys) -> Floats:
    """Return how often each pair of words is a context in the weighted texts, as a share of all contexts."""
    totals = np.zeros(len(bigrams))
    for model, weight in zip(models, weights, strict=True):
        shares = weight * model.context_counts / model.context_counts.sum()
        totals[np.searchsorted(bigrams, model.contexts)] += shares
    return totals


def _union(arrays: Sequence[Keys]) -> Keys:
    together = np.concatenate(arrays)
    together.sort(kind="stable")  # timsort merges parts that are already sorted
    first = np.concatenate([[True], together[1:] != together[:-1]])
    return np.asarray(together[first])
