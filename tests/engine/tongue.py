"""A tiny language for the search's tests: random words, their pronunciations, their n-grams, and emissions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from streamer.engine.lexicon import Lexicon

PHONES = ["a", "b", "c"]
UNITS = ["<blank>", "|", *PHONES]
BLANK, BOUNDARY = 0, 1


class TinyModel:
    """Random trigrams."""

    def __init__(self, words, seed):
        self.words = ["<unk>", "<s>", "</s>", *words]
        g = torch.Generator().manual_seed(seed)
        n = len(self.words)
        self.table = torch.randn(n, n, n, generator=g).mul(2).log_softmax(-1)
        self.unigrams = self.table.logsumexp((0, 1)) - 2 * math.log(n)
        self.start = (1, 1)

    def score(self, contexts, words):
        return self.table[contexts[..., 0], contexts[..., 1], words]


class Tongue:
    """Random words over three phones: homophones, several pronunciations, words that others begin with."""

    def __init__(self, seed: int, words: int = 4) -> None:
        dice = random.Random(seed)
        names = [f"w{number}" for number in range(words)]
        self.model = TinyModel(names, seed)
        self.pronunciations: dict[str, list[tuple[int, ...]]] = {}
        for name in names:
            found = {
                tuple(dice.choice(range(2, len(UNITS))) for _ in range(dice.choice([1, 1, 2, 2, 3])))
                for _ in range(dice.choice([1, 1, 2]))
            }
            self.pronunciations[name] = sorted(found)
        if words > 1:
            self.pronunciations[names[-1]].append(self.pronunciations[names[0]][0])  # a homophone at least
            self.pronunciations[names[-1]] = sorted(set(self.pronunciations[names[-1]]))
        self.lexicon = Lexicon.build(
            [(self.model.words.index(n), p) for n, ps in self.pronunciations.items() for p in ps], self.model.unigrams
        )

    def label_sequences(self, words: Sequence[str]) -> Iterator[list[int]]:
        """All units that these words may be made of, the last boundary said or not."""
        for way in itertools.product(*(self.pronunciations[word] for word in words)):
            said = [unit for units in way for unit in (*units, BOUNDARY)]
            yield said
            if said:
                yield said[:-1]

    def score(self, words: Sequence[str], weight: float, bonus: float) -> float:
        numbers = [self.model.words.index(word) for word in words]
        history = [*self.model.start, *numbers]
        total = bonus * len(words)
        for place, number in enumerate(numbers):
            total += weight * float(self.model.score(torch.tensor(history[place : place + 2]), torch.tensor(number)))
        return total


def emissions(seed: int, batch: int, frames: int, sharpness: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(batch, frames, len(UNITS), generator=generator) * sharpness).log_softmax(-1)


def forward(log_probs: Tensor, labels: Sequence[int]) -> float:
    """The natural log of the sum over all CTC paths of these labels."""
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
