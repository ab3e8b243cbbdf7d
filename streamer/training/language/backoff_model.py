"""A trigram model with back-off: probabilities of the n-grams that it has, and weights for all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamer.training.language.ngram_counts import BITS, MASK, Floats, Keys, look_up
from streamer.training.language.text_sources import Ids

LEAST = 1e-9  # the least probability that a context leaves for other n-grams


@dataclass
class BackOffModel:
    """Probabilities by n-gram (with sorted keys). The back-off weights are computed from them."""

    words: list[str]
    unigrams: Floats
    bigrams: Keys
    bigram: Floats
    trigrams: Keys
    trigram: Floats
    word_back_off: Floats = field(init=False)  # by word
    pair_back_off: Floats = field(init=False)  # by bigram
    contexts: Keys = field(init=False)  # index of each trigram's context among the bigrams
    suffixes: Floats = field(init=False)  # probability of each trigram's last word after its middle one

    def __post_init__(self) -> None:
        first, second = self.bigrams >> BITS, self.bigrams & MASK
        self.word_back_off = _remaining(self.bigram, first, len(self.words)) / _remaining(
            self.unigrams[second], first, len(self.words)
        )
        self.contexts = np.searchsorted(self.bigrams, self.trigrams >> BITS)
        self.suffixes = self.pair_probabilities((self.trigrams >> BITS) & MASK, self.trigrams & MASK)
        self.pair_back_off = _remaining(self.trigram, self.contexts, len(self.bigrams)) / _remaining(
            self.suffixes, self.contexts, len(self.bigrams)
        )

    def pair_probabilities(self, first: Keys, second: Keys) -> Floats:
        """Return P(second | first)."""
        backed_off = self.word_back_off[first] * self.unigrams[second]
        return look_up(self.bigrams, self.bigram, (first << BITS) | second, backed_off)

    def probabilities(self, tokens: Ids) -> Floats:
        """Return P of the last word of each row. A row is two words of context and a word."""
        first, second, word = tokens.astype(np.int64).T
        context = (first << BITS) | second
        weights = look_up(self.bigrams, self.pair_back_off, context, 1.0)
        backed_off = weights * self.pair_probabilities(second, word)
        return look_up(self.trigrams, self.trigram, (context << BITS) | word, backed_off)

    def keeping(self, bigrams: npt.NDArray[np.bool_], trigrams: npt.NDArray[np.bool_]) -> BackOffModel:
        """Return the model with only these n-grams."""
        return BackOffModel(
            self.words,
            self.unigrams,
            self.bigrams[bigrams],
            self.bigram[bigrams],
            self.trigrams[trigrams],
            self.trigram[trigrams],
        )

    def arpa(self) -> Iterator[str]:
        """Yield the lines of the model in the ARPA format, which other tools read."""
        words = self.words
        yield "\\data\\"
        for order, number in enumerate((len(words), len(self.bigrams), len(self.trigrams)), start=1):
            yield f"ngram {order}={number}"
        yield ""
        yield "\\1-grams:"
        for word, value, back_off in zip(words, _log10(self.unigrams), _log10(self.word_back_off), strict=True):
            yield f"{value:.4f}\t{word}\t{back_off:.4f}"
        yield ""
        yield "\\2-grams:"
        pairs = zip(self.bigrams.tolist(), _log10(self.bigram), _log10(self.pair_back_off), strict=True)
        for key, value, back_off in pairs:
            yield f"{value:.4f}\t{words[key >> BITS]} {words[key & MASK]}\t{back_off:.4f}"
        yield ""
        yield "\\3-grams:"
        for key, value in zip(self.trigrams.tolist(), _log10(self.trigram), strict=True):
            yield f"{value:.4f}\t{words[key >> 2 * BITS]} {words[key >> BITS & MASK]} {words[key & MASK]}"
        yield ""
        yield "\\end\\"


def _remaining(probabilities: Floats, contexts: Keys, number: int) -> Floats:
    """Return the probability that the n-grams of each context leave for others."""
    used = np.bincount(contexts, weights=probabilities, minlength=number)
    return np.maximum(1.0 - used, LEAST)


def _log10(values: Floats) -> list[float]:
    with np.errstate(divide="ignore"):
        logs: list[float] = np.maximum(np.log10(values), -99.0).tolist()
    return logs
