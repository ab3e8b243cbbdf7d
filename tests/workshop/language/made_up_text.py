"""Made-up text and models of it, small enough to look at every word after every context."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workshop.language import language_model_building, ngrams
from workshop.language.ngrams import RESERVED, BackOffModel, KneserNey, count, with_sentence_marks
from workshop.language.text_sources import SENTENCE_END, Ids

WORDS = [*RESERVED, *(f"w{number}" for number in range(6))]
TRIPLES = np.array(list(itertools.product(range(len(WORDS)), repeat=3)), dtype=np.int32)


def random_text(seed: int, number: int = 120) -> Ids:
    """Return marked sentences of made-up words, some of which are much likelier than others."""
    rng = np.random.default_rng(seed)
    lines = [
        rng.choice([0, 3, 4, 5, 6, 7, 8], size=rng.integers(1, 7), p=[0.02, 0.4, 0.2, 0.15, 0.1, 0.1, 0.03])
        for _ in range(number)
    ]
    raw = np.concatenate([[*line, SENTENCE_END] for line in lines]).astype(np.int32)
    return with_sentence_marks(raw, np.arange(len(WORDS), dtype=np.int32))


def estimated(seed: int, number: int = 120) -> KneserNey:
    """Return the model of a made-up text."""
    return ngrams.estimate(count(random_text(seed, number)), len(WORDS))


def mixed(seeds: tuple[int, ...] = (0, 1, 2)) -> tuple[BackOffModel, list[KneserNey], NDArray[Any]]:
    """Return a mixture of made-up sources, with its parts and their weights."""
    models = [estimated(seed, 30 * (seed + 1)) for seed in seeds]
    weights = np.arange(1.0, len(models) + 1) / sum(range(1, len(models) + 1))
    return language_model_building.mix(models, weights, WORDS), models, weights


def assert_sums_to_one(found: NDArray[Any], tolerance: float = 1e-9) -> None:
    """Check that the probabilities of all words sum to one after every context."""
    assert found.min() >= 0
    assert np.abs(found.reshape(-1, len(WORDS)).sum(axis=1) - 1).max() < tolerance
