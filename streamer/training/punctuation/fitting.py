"""Fits the punctuation model: word vectors and network together, for a given time, on text as it would be heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.punctuation.mark_network import MARKS, MarkNetwork, NetworkShape
from streamer.engine.punctuation.punctuation_model import PunctuationModel
from streamer.engine.punctuation.word_rows import AFFIXES, WordRows
from streamer.training.punctuation.heard_text import END, NOTHING, HeardText
from streamer.training.punctuation.labelled_text import UNLABELLED
from streamer.training.punctuation.mark_offsets import best_offsets

_BALANCED = 25  # batches from which the offsets are found
_CASE_WEIGHT = 0.5  # of the loss of capitals, beside that of marks


@dataclass(frozen=True)
class Fit:
    """The settings of a fit: time, size of a batch, learning rate, size of the model."""

    minutes: float
    most_steps: int | None = None
    rows: int = 8
    places: int = 512
    rate: float = 3e-3
    vocabulary: int = 35_000
    affix_rows: int = 6000
    own_row_dropout: float = 0.03
    shape: NetworkShape = field(default_factory=NetworkShape)
    seed: int = 0


class _Vectors(nn.Module):
    """The table of word vectors while it is learnt. It begins with the habits of the words, and random numbers."""

    def __init__(self, rows: int, size: int, habits: Tensor) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(rows, size, mode="sum", padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.2)
        with torch.no_grad():
            self.table.weight[0] = 0.0
            self.table.weight[1 : 1 + len(habits), : habits.shape[1]] = habits

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the vectors of words, which are given by their rows [batch, places, rows of a word]."""
        vectors: Tensor = self.table(numbers.flatten(0, 1))
        return vectors.view(*numbers.shape[:2], -1)


def fit(
    words: Sequence[str],
    vocabulary: Sequence[str],
    habits: npt.NDArray[np.float32],
    text: HeardText,
    settings: Fit,
    tell: Callable[[str], None],
) -> PunctuationModel:
    """Return a model that is fitted on pieces of `heard`, whose numbers stand for `words`.

    The words of `vocabulary` get rows of their own. `habits` are the habits of these words (word_habits.py).
    """
    torch.manual_seed(settings.seed)
    rows = WordRows(vocabulary, settings.affix_rows)
    table = torch.tensor([rows.of(word) for word in words] + [(0,) * (1 + AFFIXES)] * 2)  # the last two: NOTHING, END
    vectors, network = (
        _Vectors(len(rows), settings.shape.embedding, torch.from_numpy(habits)),
        MarkNetwork(settings.shape),
    )
    parameters = [*vectors.parameters(), *network.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate, weight_decay=1e-3, betas=(0.9, 0.99), fused=True)
    began, step, loss_sum = time.monotonic(), 0, 0.0
    while (progress := _progress(time.monotonic() - began, step, settings)) < 1:
        warm = min(1.0, (step + 1) / 50)
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * warm * max(1 - progress, 0.01)
        batch = _batch(vectors, network, table, text, settings)
        loss = _cross_entropy(batch.found_marks, batch.marks)
        loss = loss + _CASE_WEIGHT * _cross_entropy(batch.found_cases, batch.cases)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step, loss_sum = step + 1, loss_sum + loss.item()
        if step % 50 == 0:
            tell(
                f"{progress:4.0%} step {step}, {step * settings.rows * settings.places / 1e6:.2f} M places, "
                f"loss {loss_sum / 50:.4f}"
            )
            loss_sum = 0.0
    _balance(vectors, network, table, text, settings)
    return PunctuationModel.build(vocabulary, vectors.table.weight.detach(), network)


def _progress(seconds: float, step: int, settings: Fit) -> float:
    return max(seconds / (60 * settings.minutes), step / settings.most_steps if settings.most_steps else 0.0)


@dataclass(frozen=True)
class _Batch:
    """Scores of the network, and the labels."""

    found_marks: Tensor
    found_cases: Tensor
    marks: Tensor
    cases: Tensor


def _batch(vectors: _Vectors, network: MarkNetwork, table: Tensor, text: HeardText, settings: Fit) -> _Batch:
    rows = [text.row(settings.places, settings.shape.gap) for _ in range(settings.rows)]
    words, pauses, marks, cases = (
        torch.from_numpy(np.stack(column)) for column in zip(*(vars(row).values() for row in rows), strict=True)
    )
    numbers = table[words]
    forgotten = torch.rand(words.shape) < settings.own_row_dropout
    numbers[..., 0] = numbers[..., 0].masked_fill(forgotten, 0)
    inputs = vectors(numbers) + (words == END).unsqueeze(2) * network.end
    found_marks, found_cases = network(inputs, pauses, (words != NOTHING).float())
    return _Batch(found_marks, found_cases, marks, cases)


@torch.no_grad()
def _balance(vectors: _Vectors, network: MarkNetwork, table: Tensor, text: HeardText, settings: Fit) -> None:
    """Add the offsets with the best F1 to the scores of the marks."""
    batches = [_batch(vectors, network, table, text, settings) for _ in range(_BALANCED)]
    scores = torch.cat([batch.found_marks.flatten(0, 1) for batch in batches])
    labels = torch.cat([batch.marks.flatten() for batch in batches])
    network.judge.bias[:MARKS] += best_offsets(scores, labels)


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=UNLABELLED)
