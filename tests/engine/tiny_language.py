"""A tiny language for tests of the search: random words, pronunciations, n-grams and emissions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from string import ascii_lowercase

import numpy as np
import torch
from torch import Tensor

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.letter_to_sound import BEGIN, END, Graphone, LetterToSound
from streamer.engine.language.lexicon import Lexicon
from streamer.engine.language.neural_model import NeuralModel
from streamer.engine.language.reading_graph import CompiledReading
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.search.search import BeamOptions

PHONES = ["a", "b", "c"]
UNITS = ["<blank>", "|", *PHONES]
BLANK, BOUNDARY = 0, 1
# A beam so wide that nothing is lost.
WIDE = BeamOptions(
    beam=600,
    tokens=3,
    endings=600,
    language_weight=0.7,
    word_bonus=0.3,
    blank_penalty=0.4,
    end_weight=0.6,
    boundary_floor=0.0,
    blank_ceiling=2.0,
)


def random_trigrams(names: Sequence[str], dice: random.Random) -> LanguageModel:
    """Return every word, and some pairs and triples, with random probabilities and weights."""
    before = ["<s>", *names]
    ngrams: dict[tuple[str, ...], tuple[float, float]]
    ngrams = {(name,): (-dice.uniform(0.5, 5.0), -dice.uniform(0.0, 2.0)) for name in before}
    for pair in itertools.product(before, names):
        if dice.random() < 0.6:
            ngrams[pair] = -dice.uniform(0.2, 4.0), -dice.uniform(0.0, 2.0)
    for triple in itertools.product(before, names, names):
        if triple[:2] in ngrams and dice.random() < 0.5:
            ngrams[triple] = -dice.uniform(0.1, 3.0), 0.0
    ends = random.Random(len(ngrams))  # of its own: the words stay what they are
    contexts: list[tuple[str, ...]] = [(), *(ngram for ngram in ngrams if len(ngram) < 3)]
    for context in contexts:
        if not context or ends.random() < 0.5:
            ended: tuple[str, ...] = (*context, "</s>")
            ngrams[ended] = -ends.uniform(0.1, 3.0), 0.0
    return LanguageModel.build(names, ngrams)


def spelling() -> LetterToSound:
    """Return words over a, b and c that sound as they are written; c sounds mostly like b."""
    graphones: list[Graphone] = [BEGIN, END, *((letter, (letter,)) for letter in "abc"), ("c", ("b",))]
    count = len(graphones)
    tensors = {
        "graphones": np.arange(count, dtype=np.uint8),
        "children": np.array([count, *[0] * count], np.uint8),
        "scores": np.array([0] * (count - 1) + [1], np.uint8),
        "backoffs": np.zeros(count + 1, np.uint8),
    }
    return LetterToSound(graphones, tensors, {"scores": [-2.0, 0.5], "backoffs": [0.0, 1.0], "order": [2]})


class Tongue:
    """Random words over three phones, with homophones, several pronunciations, and words that begin other words."""

    def __init__(self, seed: int, words: int = 4) -> None:
        dice = random.Random(seed)
        names = [f"w{letter}" for letter in ascii_lowercase[:words]]
        self.model = random_trigrams(names, dice)
        self.pronunciations = {name: self._ways(dice) for name in names}
        # At least one pair sounds alike.
        self.pronunciations[names[-1]] |= {dice.choice(sorted(self.pronunciations[names[0]]))}
        numbers = {name: number for number, name in enumerate(self.model.words)}
        ways = [(numbers[name], way) for name, found in self.pronunciations.items() for way in sorted(found)]
        self.lexicon = Lexicon.build(ways, self.model.unigrams)

    def _ways(self, dice: random.Random) -> set[tuple[int, ...]]:
        phones = range(2, len(UNITS))
        return {tuple(dice.choices(phones, k=dice.choice([1, 1, 2, 2, 3]))) for _ in range(dice.choice([1, 1, 2]))}

    def label_sequences(self, words: Sequence[str]) -> Iterator[list[int]]:
        """Return all units that these words may be made of, with or without the last boundary."""
        for way in itertools.product(*(self.pronunciations[word] for word in words)):
            said = [unit for units in way for unit in (*units, BOUNDARY)]
            yield said
            if said:
                yield said[:-1]

    def score(self, words: Sequence[str], options: BeamOptions) -> float:
        """Return the score of the language model and the word bonus for these words, if nothing follows them."""
        numbers = [self.model.words.index(word) for word in [*words, "</s>"]]
        history = [*self.model.start, *numbers]
        weights = [options.language_weight] * len(words) + [options.end_weight]
        total = options.word_bonus * len(words)
        for place, (number, weight) in enumerate(zip(numbers, weights, strict=True)):
            total += weight * float(self.model.score(history[place : place + 2], number))
        return total


def neural_model(tongue: Tongue) -> NeuralModel:
    """Return a neural model of the words with random weights, which are large, so that it prefers some words."""
    torch.manual_seed(1)
    network = NeuralNetwork(len(tongue.model.words), 8, 8, tongue.model.vocabulary)
    with torch.no_grad():
        for part in network.parameters():
            part.mul_(4)
    return compiled(network)


def compiled(network: NeuralNetwork) -> NeuralModel:
    """Return the model that computes this network on a CPU."""
    weights = network.weights()
    return NeuralModel(weights, CompiledReading(weights))


def emissions(seed: int, batch: int, frames: int, sharpness: float = 2.0) -> Tensor:
    """Return random log-probabilities. A greater sharpness makes them surer."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(batch, frames, len(UNITS), generator=generator) * sharpness).log_softmax(-1)


def forward(log_probs: Tensor, labels: Sequence[int]) -> float:
    """Return the natural log of the sum over all CTC paths of these labels."""
    extended = [BLANK]
    for label in labels:
        extended += [label, BLANK]
    rows = log_probs.double().exp().tolist()
    alpha = [0.0] * len(extended)
    alpha[0] = 1.0
    before = [1.0] + [0.0] * (len(extended) - 1)
    first = True
    for row in rows:
        after = []
        for place, label in enumerate(extended):
            if first:
                mass = 1.0 if place < 2 else 0.0
            else:
                mass = before[place] + (before[place - 1] if place else 0.0)
                if place > 1 and label not in (BLANK, extended[place - 2]):
                    mass += before[place - 2]
            after.append(mass * row[label])
        before, first = after, False
    mass = before[-1] + (before[-2] if len(before) > 1 else 0.0)
    return math.log(mass) if mass else -math.inf


def enumerated(tongue: Tongue, log_probs: Tensor, options: BeamOptions, longest: int) -> dict[tuple[str, ...], float]:
    """Return the exact score of every word sequence that fits into these frames."""
    lowered = log_probs.clone()
    lowered[:, BLANK] -= options.blank_penalty
    found = {}
    for count in range(longest + 1):
        for words in itertools.product(tongue.pronunciations, repeat=count):
            ways = {tuple(labels) for labels in tongue.label_sequences(words)}
            masses = [forward(lowered, labels) for labels in ways]
            total = sum(math.exp(mass) for mass in masses if mass > -math.inf)
            if total:
                found[words] = math.log(total) + tongue.score(words, options)
    return found
