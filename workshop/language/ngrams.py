"""A trigram model with back-off: counts of n-grams, Kneser-Ney estimates, and the n-grams that a small model keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from workshop.language.text_sources import SENTENCE_END, Ids

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


# Interpolated modified Kneser-Ney estimates (Chen and Goodman 1998), in parts, so that sources can be mixed.


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


# The vocabulary, and counts of n-grams.

Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BITS = 17
MASK = (1 << BITS) - 1
UNKNOWN_ID, START_ID, END_ID = 0, 1, 2
RESERVED = ["<unk>", "<s>", "</s>"]


@dataclass
class Counts:
    """The distinct bigrams and trigrams of a text and how often each was seen."""

    bigrams: Keys
    bigram_counts: Keys
    trigrams: Keys
    trigram_counts: Keys


def choose_vocabulary(words: list[str], weights: Floats, size: int) -> list[str]:
    """Return `size` words: the reserved ones, then those with the most weight. `words` begins with the unknown word."""
    ranked = np.argsort(-weights[1:], kind="stable") + 1
    kept = [words[number] for number in ranked[: size - len(RESERVED)] if weights[number] > 0]
    return RESERVED + kept


def with_sentence_marks(ids: Ids, renumbered: Ids) -> Ids:
    """Return texts as numbers of the vocabulary, with marks at the start and the end of each sentence."""
    marked = np.where(ids == SENTENCE_END, END_ID, renumbered[ids])  # what SENTENCE_END reads is not used
    ends = np.flatnonzero(ids == SENTENCE_END)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return np.insert(marked, starts, START_ID).astype(np.int32)


def count(text: Ids) -> Counts:
    """Count a text that `with_sentence_marks` made."""
    wide = text.astype(np.int64)
    pairs = (wide[:-1] << BITS) | wide[1:]
    triples = (pairs[:-1] << BITS) | wide[2:]
    inside = text[:-1] != END_ID  # no n-gram spans two sentences
    bigrams, bigram_counts = _counted(pairs[inside])
    trigrams, trigram_counts = _counted(triples[inside[:-1] & inside[1:]])
    return Counts(bigrams, bigram_counts, trigrams, trigram_counts)


def look_up(sorted_keys: Keys, values: Floats, keys: Keys, missing: Floats | float) -> Floats:
    """Return the value of each key, or `missing` for those that are not there."""
    if not len(sorted_keys):
        return np.broadcast_to(missing, keys.shape).astype(np.float64)
    indices = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[indices] == keys, values[indices], missing)


def _counted(keys: Keys) -> tuple[Keys, Keys]:
    keys.sort()
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.empty(0, np.int64)
    return keys[first], np.diff(np.append(first, len(keys)))


# Chooses the n-grams of a small model: those without which it would change most (relative entropy, Stolcke 1998).

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
