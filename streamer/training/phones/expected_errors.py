"""The words that are expected to be wrong, over the alternatives of a search: minimum word error rate training.

With s(i) the score of alternative i in the search and e(i) its word errors, the expected errors of an utterance are

    sum over i of p(i) e(i),        p(i) = exp(s(i)) / sum over the alternatives of exp(s)

What of s(i) the head decides is taken as its likeliest path, through any pronunciation of the words, so the gradient of
p(i) reaches the frames where alternatives differ. The language model's part of s(i) is fixed.
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
    """What may have been said: words, the natural log of how likely the search finds them, and their pronunciations."""

    words: tuple[str, ...]
    score: float
    pronunciations: list[list[Phones]]


class AlternativeSource(Protocol):
    """Finds the alternatives of each row, the likeliest first."""

    def find(self, emissions: Tensor, lengths: Sequence[int]) -> list[list[Alternative]]:
        """From log-probabilities [rows, frames, units]."""
        ...


def expected_errors(emissions: Tensor, lengths: Tensor, texts: Sequence[str], source: AlternativeSource) -> Tensor:
    """The expected number of wrong words in all rows. Rows with fewer than two alternatives teach nothing."""
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
