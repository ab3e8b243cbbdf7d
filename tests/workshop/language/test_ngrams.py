"""Counts, Kneser-Ney estimates and pruning of n-grams, and the model in the format of other tools."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from tests.workshop.language.made_up_text import TRIPLES, WORDS, assert_sums_to_one, mixed, random_text
from workshop.language import language_model_building, ngrams
from workshop.language.ngrams import BITS, RESERVED, choose_vocabulary, count, losses, prune
from workshop.language.text_sources import Ids


def test_the_arpa_lines_say_the_same() -> None:
    """The ARPA lines, read by the rules of the format, give the same probabilities."""
    model, _, _ = mixed()
    read: dict[tuple[str, ...], tuple[float, float]] = {}
    lines = list(model.arpa())
    for line in lines:
        parts = line.split("\t")
        if len(parts) > 1:
            read[tuple(parts[1].split())] = float(parts[0]), float(parts[2]) if len(parts) > 2 else 0.0
    orders = Counter(len(ngram) for ngram in read)
    assert lines[:4] == ["\\data\\", *(f"ngram {order}={orders[order]}" for order in (1, 2, 3))]
    assert lines[-1] == "\\end\\"

    def look_up(ngram: tuple[str, ...]) -> float:
        if ngram in read:
            return read[ngram][0]
        return read.get(ngram[:-1], (0.0, 0.0))[1] + look_up(ngram[1:])

    found = model.probabilities(TRIPLES)
    for row, value in zip(TRIPLES.tolist(), found, strict=True):
        if row[2] != 1:
            assert look_up(tuple(WORDS[number] for number in row)) == pytest.approx(math.log10(value), abs=5e-4)


Found = dict[tuple[int, ...], float]


def dictionary_model(text: Ids) -> Found:
    """Return P of each third word after the two before, by the formulas of the paper."""
    trigrams: Counter[tuple[int, ...]] = Counter()
    starts: Counter[tuple[int, ...]] = Counter()
    sentence: list[int] = []
    for word in text.tolist():
        sentence.append(word)
        if word == 2:
            trigrams.update(zip(sentence, sentence[1:], sentence[2:], strict=False))
            starts[tuple(sentence[:2])] += 1
            sentence = []
    bigrams = Counter({ngram[1:]: 0 for ngram in trigrams})
    bigrams.update(ngram[1:] for ngram in trigrams)
    bigrams.update(starts)
    unigrams = Counter(ngram[-1] for ngram in bigrams)

    def smoothed(
        counts: Counter[tuple[int, ...]], lower: dict[tuple[int, ...], float], order: int
    ) -> dict[tuple[int, ...], float]:
        discounts = ngrams.discount(np.array(list(counts.values())))
        totals: defaultdict[tuple[int, ...], int] = defaultdict(int)
        freed: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for ngram, seen in counts.items():
            totals[ngram[:-1]] += seen
            freed[ngram[:-1]] += discounts[min(seen, 3)]
        found = {}
        for ngram in itertools.product(range(len(WORDS)), repeat=order):
            context, seen, total = ngram[:-1], counts[ngram], totals[ngram[:-1]]
            gamma = freed[context] / total if total else 1.0
            direct = (seen - discounts[min(seen, 3)]) / total if seen else 0.0
            found[ngram] = direct + gamma * lower[ngram[1:]]
        return found

    one = smoothed(Counter({(word,): seen for word, seen in unigrams.items()}), {(): 1 / (len(WORDS) - 1)}, 1)
    one[(1,)] = 0.0
    return smoothed(trigrams, smoothed(bigrams, one, 2), 3)


def test_discounts_are_those_of_the_paper() -> None:
    """The discounts come from the numbers of n-grams that were seen once, twice, three and four times."""
    counts = np.repeat([1, 2, 3, 4, 9], [60, 20, 10, 5, 7])
    y = 60 / (60 + 2 * 20)
    expected = [0, 1 - 2 * y * 20 / 60, 2 - 3 * y * 10 / 20, 3 - 4 * y * 5 / 10]
    assert ngrams.discount(counts) == pytest.approx(expected)
    assert ngrams.discount(np.array([7])) == pytest.approx([0, 0.5, 0.75, 0.75])


@pytest.mark.parametrize(("seed", "number"), [(0, 120), (1, 400), (2, 3)])
def test_kneser_ney_equals_a_dictionary(seed: int, number: int) -> None:
    """Every word after every context has the probability of a plain implementation, and they sum to one."""
    text = random_text(seed, number)
    found = language_model_building.word_probabilities(ngrams.estimate(count(text), len(WORDS)), TRIPLES)
    expected = dictionary_model(text)
    assert found == pytest.approx([expected[tuple(row)] for row in TRIPLES.tolist()], abs=1e-12)
    assert_sums_to_one(found)


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


def test_the_loss_of_an_ngram_is_the_divergence_that_it_causes() -> None:
    """The computed cost of a trigram equals the divergence between the models with and without it."""
    model, parts, weights = mixed()
    shares = language_model_building.context_weights(parts, weights, model.bigrams)
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
    shares = language_model_building.context_weights(parts, weights, model.bigrams)
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
