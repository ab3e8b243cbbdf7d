"""Fits the turn model: word vectors and network together, for a given time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from streamer.engine.punctuation.word_rows import WordRows
from streamer.engine.turn.turn_model import MOST_WORDS, NO_ROWS, TurnModel, TurnNetwork
from streamer.training.turns.turn_text import Integers, Sentence, TurnText, vocabulary

# How segments are made from sentences: mostly one, which a segment may begin in the middle of.
_SENTENCES = (0.65, 0.25, 0.1)
_BEGUN_LATE = 0.1
# The recogniser hears other words: up to this share of them in a segment.
_MISHEARD, _LOST = 0.2, 0.05


@dataclass(frozen=True)
class Fit:
    """How to fit: the time, the size of a batch, the rate of learning, and the size of the model."""

    minutes: float
    most_steps: int | None = None
    batch: int = 96
    pool: int = 12  # batches that are drawn at once, so that segments of about the same length share one
    rate: float = 4e-3
    vocabulary: int = 20_000
    affix_rows: int = 4000
    unknown_share: float = 0.03  # of words that lose their own row
    embedding: int = 48
    memory: int = 96
    seed: int = 0


@dataclass(frozen=True)
class Segment:
    """Words with labels (1 where a sentence is over) and weights.

    In each sentence, the end weighs as much as all other words together. Half of that is for the words before a comma,
    because speakers pause there.
    """

    words: Integers
    labels: list[float]
    weights: list[float]


class Segments:
    """Draws segments. Each source is as likely as the others."""

    def __init__(self, sources: Sequence[Sequence[Sentence]], words: int, seed: int, *, misheard: bool = True) -> None:
        self._sources = [source for source in sources if source]
        self._dice = np.random.default_rng(seed)
        self._misheard = misheard
        counts = np.bincount(np.concatenate([one.words for source in self._sources for one in source]), minlength=words)
        chances = counts**0.75
        self._others = self._dice.choice(words, size=200_000, p=chances / chances.sum())

    def draw(self) -> Segment:
        """A segment, as it might be heard."""
        dice = self._dice
        source = self._sources[dice.integers(len(self._sources))]
        first = int(dice.integers(len(source)))
        parts = [source[first]]
        for sentence in source[first + 1 : first + 1 + int(dice.choice(3, p=_SENTENCES))]:
            if not sentence.follows:
                break
            parts.append(sentence)
        words, labels, weights = [], list[float](), list[float]()
        for part in parts:
            size = len(part.words)
            words.append(part.words)
            labels += [0.0] * (size - 1) + [1.0]
            own = np.full(size, (0.5 if len(part.commas) else 1.0) / max(size - 1, 1))
            own[part.commas] += 0.5 / max(len(part.commas), 1)
            own[-1] = 1.0
            weights += own.tolist()
        heard = np.concatenate(words)
        late = int(dice.integers(len(heard))) if dice.random() < _BEGUN_LATE else 0
        late = max(late, len(heard) - MOST_WORDS)
        return self._heard(Segment(heard[late:], labels[late:], weights[late:]))

    def _heard(self, segment: Segment) -> Segment:
        if not self._misheard:
            return segment
        dice, size, words = self._dice, len(segment.words), segment.words.copy()
        wrong = dice.random(size) < dice.random() * _MISHEARD
        words[wrong] = self._others[dice.integers(len(self._others), size=int(wrong.sum()))]
        kept = np.flatnonzero((dice.random(size) >= dice.random() * _LOST) | (np.array(segment.labels) > 0))
        return Segment(words[kept], [segment.labels[i] for i in kept], [segment.weights[i] for i in kept])


def fit(text: TurnText, settings: Fit, tell: Callable[[str], None]) -> TurnModel:
    """A model fitted on segments of this text."""
    torch.manual_seed(settings.seed)
    known = vocabulary(text, settings.vocabulary)
    rows = WordRows(known, settings.affix_rows)
    table = torch.tensor([*(rows.of(word) for word in text.words), NO_ROWS])
    vectors = nn.EmbeddingBag(len(rows), settings.embedding, mode="sum", padding_idx=0)
    nn.init.normal_(vectors.weight, std=0.2)
    with torch.no_grad():
        vectors.weight[0] = 0.0
    network = TurnNetwork(settings.embedding, settings.memory)
    parameters = [*vectors.parameters(), *network.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=settings.rate, weight_decay=1e-3, betas=(0.9, 0.99), fused=True)
    segments = Segments(list(text.learnt.values()), len(text.words), settings.seed)
    batches = _batches(segments, settings, len(text.words))
    began, step, loss_sum = time.monotonic(), 0, 0.0
    while (progress := _progress(time.monotonic() - began, step, settings)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * min(1.0, (step + 1) / 50) * max(1 - progress, 0.01)
        words, labels, weights = next(batches)
        numbers = table[words]
        forgotten = torch.rand(words.shape) < settings.unknown_share
        numbers[..., 0] = numbers[..., 0].masked_fill(forgotten, 0)
        scores = network(vectors(numbers.flatten(0, 1)).view(*words.shape, -1))
        each = functional.binary_cross_entropy_with_logits(scores, labels, weights, reduction="sum")
        loss = each / weights.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step, loss_sum = step + 1, loss_sum + loss.item()
        if step % 200 == 0:
            tell(f"{progress:4.0%} step {step}, loss {loss_sum / 200:.4f}")
            loss_sum = 0.0
    return TurnModel.build(known, vectors.weight.detach(), network)


def _progress(seconds: float, step: int, settings: Fit) -> float:
    return max(seconds / (60 * settings.minutes), step / settings.most_steps if settings.most_steps else 0.0)


def _batches(segments: Segments, settings: Fit, nothing: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    dice = np.random.default_rng(settings.seed)
    while True:
        drawn = [segments.draw() for _ in range(settings.pool * settings.batch)]
        drawn.sort(key=lambda segment: len(segment.words))
        for number in dice.permutation(settings.pool):
            yield _batch(drawn[number * settings.batch : (number + 1) * settings.batch], nothing)


def _batch(drawn: Sequence[Segment], nothing: int) -> tuple[Tensor, Tensor, Tensor]:
    longest = max(len(segment.words) for segment in drawn)
    words = np.full((len(drawn), longest), nothing, dtype=np.int64)
    labels, weights = np.zeros((2, len(drawn), longest), dtype=np.float32)
    for row, segment in enumerate(drawn):
        size = len(segment.words)
        words[row, :size], labels[row, :size], weights[row, :size] = segment.words, segment.labels, segment.weights
    return torch.from_numpy(words), torch.from_numpy(labels), torch.from_numpy(weights)
