"""Finds words that a recogniser may confuse, because their pronunciations differ in at most two phones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest

import numpy as np
import numpy.typing as npt

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon, Pronunciation

Integers = npt.NDArray[np.int32]

ALIKE = 8
"""The number of similar words for each word."""

# A recogniser confuses words with the same phones this much more often than words with different phones.
_HOMOPHONE = 6.0
_MOST_IN_GROUP = 400


def similar_words(words: Sequence[str], lexicon: Lexicon, language: LanguageModel) -> Integers:
    """Return the numbers of ALIKE similar words for each word [words, ALIKE]. They are to be drawn with equal chances.

    So a likely word comes several times. A word without similar ones, or outside the lexicon, has its own number.
    """
    numbers = {word: number for number, word in enumerate(words)}
    own_numbers = {number: numbers[word] for number, word in enumerate(language.words) if word in numbers}
    weights = np.zeros(len(words))
    for number, own in own_numbers.items():
        weights[own] = np.exp(float(language.unigrams[number])) ** 0.5
    ways = [(own_numbers[word], units) for word, units in lexicon.pronunciations() if word in own_numbers]
    return _drawn(len(words), ways, weights)


def _drawn(number: int, ways: Iterable[Pronunciation], weights: npt.NDArray[np.float64]) -> Integers:
    groups: dict[tuple[int, ...], list[int]] = {}
    variants: list[set[tuple[int, ...]]] = [set() for _ in range(number)]
    whole: list[set[tuple[int, ...]]] = [set() for _ in range(number)]
    for word, units in ways:
        phones = tuple(units)
        whole[word].add(phones)
        variants[word].add(phones)
        # Two words that become equal when a phone is left out of each, or of one, differ in at most two phones.
        if len(phones) > 2:
            variants[word].update(phones[:place] + phones[place + 1 :] for place in range(len(phones)))
    for word, shapes in enumerate(variants):
        for variant in shapes:
            groups.setdefault(variant, []).append(word)
    groups = {key: nlargest(_MOST_IN_GROUP, members, key=lambda word: weights[word]) for key, members in groups.items()}
    dice = np.random.default_rng(0)
    alike = np.tile(np.arange(number, dtype=np.int32)[:, None], ALIKE)
    for word, shapes in enumerate(variants):
        same = {other for phones in whole[word] for other in groups.get(phones, ()) if phones in whole[other]}
        others = {other for variant in shapes for other in groups[variant]} - {word}
        if others:
            candidates = sorted(others)
            chances = weights[candidates] * np.where([other in same for other in candidates], _HOMOPHONE, 1.0)
            alike[word] = dice.choice(candidates, ALIKE, p=chances / chances.sum())
    return alike
