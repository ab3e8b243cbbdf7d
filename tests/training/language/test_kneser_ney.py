"""The Kneser-Ney estimate equals a plain implementation with dictionaries."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest

from streamer.training.language import kneser_ney, mixture
from streamer.training.language.ngram_counts import count
from streamer.training.language.text_sources import Ids
from tests.training.language.made_up_text import TRIPLES, WORDS, assert_sums_to_one, random_text

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
        discounts = kneser_ney.discount(np.array(list(counts.values())))
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
    assert kneser_ney.discount(counts) == pytest.approx(expected)
    assert kneser_ney.discount(np.array([7])) == pytest.approx([0, 0.5, 0.75, 0.75])


@pytest.mark.parametrize(("seed", "number"), [(0, 120), (1, 400), (2, 3)])
def test_kneser_ney_equals_a_dictionary(seed: int, number: int) -> None:
    """Every word after every context has the probability of a plain implementation, and they sum to one."""
    text = random_text(seed, number)
    found = mixture.probabilities(kneser_ney.estimate(count(text), len(WORDS)), TRIPLES)
    expected = dictionary_model(text)
    assert found == pytest.approx([expected[tuple(row)] for row in TRIPLES.tolist()], abs=1e-12)
    assert_sums_to_one(found)
