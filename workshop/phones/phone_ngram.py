"""An n-gram over the units of the phones' head: an interpolated Kneser-Ney estimate from the transcripts' phones.

c(h, k) is how often unit k follows the context h. D is the discount of an order. h' is the context without its oldest
unit. Then

    P(k | h) = max(c(h, k) - D, 0) / c(h)  +  D * |{k: c(h, k) > 0}| / c(h) * P(k | h')

Below the highest order, c(h, k) is the number of different units before (h, k), because a shorter context is used only
if the longer one is new. The tables are dense: 41 units with a context of three units are 3 million numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from workshop.acoustic import units
from workshop.data.corpus import CorpusError
from workshop.language.pronunciation import Pronunciations
from workshop.language.text_sources import UNKNOWN, sentences

BEGINNING = 0
"""As a unit of context: before the first unit. No sequence contains the blank, which has this number."""

ORDERS = (2, 3, 4)
_LEAST = 1e-30


@dataclass(frozen=True)
class PhoneNgram:
    """An n-gram. `weights` [units] * (order - 1) + [units + 1] has a weight for every unit, and for the end.

    The first axes are the context, from the oldest to the newest unit. The weights are probabilities. A free unit is an
    exception: it always has the weight 1, and is no part of a context.
    """

    weights: Tensor

    @property
    def order(self) -> int:
        """The length of the n-grams."""
        return self.weights.ndim

    @property
    def units(self) -> int:
        """The number of units, the blank among them."""
        return len(self.weights)

    def log_weight(self, sequence: Sequence[int]) -> float:
        """Return the natural log of the product of all weights of a sequence, with its end."""
        rows = torch.tensor(_windows(sequence, self.order, self.units))
        return float(self.weights[rows.unbind(1)].clamp(min=_LEAST).log().sum())


def estimate(sequences: Sequence[Sequence[int]], units: int, order: int, free: int | None = None) -> PhoneNgram:
    """Return the n-gram of these sequences of units, which are numbers from 1. `free`: a unit that costs nothing."""
    if order not in ORDERS:
        raise ValueError(f"the order of the phones' n-gram must be one of {ORDERS}, not {order}")
    if free is None:
        return PhoneNgram(_kneser_ney(_counts(sequences, units, order)))
    without = [[unit for unit in sequence if unit != free] for sequence in sequences]
    shorter = [_kneser_ney(_counts(without, units, length)) for length in range(1, order + 1)]
    return PhoneNgram(_with_free(shorter, units, free))


def _counts(sequences: Sequence[Sequence[int]], units: int, order: int) -> Tensor:
    """Return how often each n-gram occurs: [units] * (order - 1) + [units + 1]."""
    shape = (units,) * (order - 1) + (units + 1,)
    rows = torch.tensor([window for sequence in sequences for window in _windows(sequence, order, units)])
    flat = torch.zeros(len(rows), dtype=torch.int64)
    for size, column in zip(shape, rows.unbind(1), strict=True):
        flat = flat * size + column
    return torch.bincount(flat, minlength=math.prod(shape)).view(shape).double()


def _windows(sequence: Sequence[int], order: int, end: int) -> list[list[int]]:
    padded = [BEGINNING] * (order - 1) + list(sequence) + [end]
    return [padded[place : place + order] for place in range(len(sequence) + 1)]


def _kneser_ney(counts: Tensor) -> Tensor:
    """Return P(k | h) of the highest order, which contains all lower ones."""
    orders = [counts]
    while orders[0].ndim > 1:
        orders.insert(0, orders[0].sum(0))
    # Only the beginning can stand before a beginning, so the lower orders keep their true counts there.
    for lower, higher in zip(range(len(orders) - 1), list(orders[1:]), strict=True):
        different = (higher > 0).double().sum(0)
        if different.ndim > 1:
            different[BEGINNING] = orders[lower][BEGINNING]
        orders[lower] = different
    unigram = orders[0] + 0.5
    unigram[BEGINNING] = 0.0
    probabilities = unigram / unigram.sum()
    for order in orders[1:]:
        once, twice = (int((order == number).sum()) for number in (1, 2))
        discount = once / (once + 2 * twice) if once else 0.5
        total = order.sum(-1, keepdim=True)
        left = discount * (order > 0).double().sum(-1, keepdim=True)
        mixed = ((order - discount).clamp(min=0) + left * probabilities) / total.clamp(min=1)
        probabilities = torch.where(total > 0, mixed, probabilities.expand_as(mixed))
    return probabilities


def _with_free(shorter: list[Tensor], units: int, free: int) -> Tensor:
    """Return tables for contexts with the free unit, from tables by order for contexts without it."""
    order = len(shorter)
    weights = shorter[-1].clone()
    for context in torch.cartesian_prod(*[torch.arange(units)] * (order - 1)).view(-1, order - 1).tolist():
        if free in context:
            kept = tuple(unit for unit in context if unit != free)
            weights[tuple(context)] = shorter[len(kept)][kept]
    weights[..., free] = 1.0
    # The free unit always stands after another unit: neither at the beginning nor after itself.
    for nothing in (BEGINNING, free):
        weights.select(-2, nothing)[..., free] = 0.0
    return weights


# The phones of written text, each word in its first pronunciation: more text for the n-gram over phones.


def written_phones(texts: Sequence[Path], pronunciations: Pronunciations) -> Iterator[list[int]]:
    """Yield the units of every sentence of these files, which have one paragraph a line. A boundary follows every word.

    Sentences with a word that cannot be spoken are left out.
    """

    @lru_cache(1_000_000)
    def word_units(word: str) -> tuple[int, ...]:
        variants = [] if word == UNKNOWN else pronunciations.variants(word)
        if not variants:
            return ()
        return (*(units.PHONE_NUMBER[phone] for phone in variants[0]), units.PHONE_NUMBER[units.BOUNDARY])

    for text in texts:
        try:
            lines = text.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise CorpusError(f"{text} cannot be read: {error}") from error
        for line in lines:
            for sentence in sentences(line):
                words = [word_units(word) for word in sentence]
                if all(words):
                    yield [unit for word in words for unit in word]
