"""Words that a recogniser may take for each other, because their pronunciations differ in at most a phone or two."""

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

# A word with the same phones is taken for another one this much more often than one with a different phone.
_HOMOPHONE = 6.0
_MOST_IN_GROUP = 400


def similar_words(words: Sequence[str], lexicon: Lexicon, language: LanguageModel) -> Integers:
    """For each of these words, the numbers of ALIKE others of them, of which all are as likely; itself if it has none.

    A likely word comes several times. A word that is not in the lexicon has no others.
    """
    wanted = {word: number for number, word in enumerate(words)}
    known = {number: wanted[word] for number, word in enumerate(language.words) if word in wanted}
    weights = np.zeros(len(words))
    for number, own in known.items():
        weights[own] = np.exp(float(language.unigrams[number])) ** 0.5
    ways = [(known[word], units) for word, units in lexicon.pronunciations() if word in known]
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
    for word, found in enumerate(variants):
        for variant in found:
            groups.setdefault(variant, []).append(word)
    groups = {key: nlargest(_MOST_IN_GROUP, members, key=lambda word: weights[word]) for key, members in groups.items()}
    dice = np.random.default_rng(0)
    alike = np.tile(np.arange(number, dtype=np.int32)[:, None], ALIKE)
    for word, found in enumerate(variants):
        same = {other for phones in whole[word] for other in groups.get(phones, ()) if phones in whole[other]}
        others = {other for variant in found for other in groups[variant]} - {word}
        if others:
            candidates = sorted(others)
            chances = weights[candidates] * np.where([other in same for other in candidates], _HOMOPHONE, 1.0)
            alike[word] = dice.choice(candidates, ALIKE, p=chances / chances.sum())
    return alike
