"""Minimum word error rate training: the expected number of wrong words, over the alternatives that a search finds.

The search gives each alternative i of an utterance a score s(i). e(i) is its number of word errors. The expected number
of errors of the utterance is

    sum over i of p(i) e(i),        p(i) = exp(s(i)) / sum over the alternatives of exp(s)

One part of s(i) depends on the head. It is the score of the likeliest path through any pronunciations of the words, so
the gradient reaches the frames in which the alternatives differ. The language model's part of s(i) is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from streamer.training.acoustic import units
from streamer.training.language.pronunciation import Phones
from streamer.training.phones.pronunciation_graph import PronunciationGraph
from streamer.training.phones.viterbi import RESTING, best_paths


@dataclass(frozen=True)
class Alternative:
    """A text that may have been said: its words and their pronunciations, and the search's log-probability of it."""

    words: tuple[str, ...]
    score: float
    pronunciations: list[list[Phones]]


class AlternativeSource(Protocol):
    """Finds the alternatives of each row, the likeliest first."""

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """Find them from log-probabilities [rows, frames, units]."""
        ...


def expected_errors(emissions: Tensor, lengths: Tensor, texts: Sequence[str], source: AlternativeSource) -> Tensor:
    """Return the expected number of wrong words in all rows. A row with fewer than two alternatives counts nothing."""
    fixed, frames = emissions.detach(), lengths.tolist()
    rows = [
        (row, alternative)
        for row, alternatives in enumerate(source.find(fixed, frames))
        if len(alternatives) > 1
        for alternative in alternatives
    ]
    total = emissions.new_zeros(())
    if not rows:
        return total
    numbers = [row for row, _ in rows]
    graphs = [PronunciationGraph.of(alternative.pronunciations) for _, alternative in rows]
    paths = best_paths(fixed[numbers], [frames[row] for row in numbers], graphs)
    for row, text in enumerate(texts):
        scores, errors = [], []
        for (owner, alternative), graph, path in zip(rows, graphs, paths, strict=True):
            if owner == row and path is not None:
                said = [units.BLANK if node == RESTING else graph.labels[node] for node in path]
                acoustic = emissions[row, torch.arange(len(said)), said].sum()
                scores.append(alternative.score + acoustic - acoustic.detach())
                errors.append(units.errors(text.split(), alternative.words))
        if len(scores) > 1:
            total = total + torch.stack(scores).softmax(0) @ emissions.new_tensor(errors)
    return total
