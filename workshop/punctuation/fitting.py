"""Fits the punctuation model: word vectors, network and offsets, on text as a recogniser would hear it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.typing import NDArray
from torch import Tensor, nn, zeros
from torch.nn import functional

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.lexicon import Lexicon, Pronunciation
from streamer.engine.text.marks import Mark
from streamer.engine.text.punctuation_model import (
    AFFIXES,
    CASES,
    MARKS,
    PAUSES,
    NetworkShape,
    PunctuationModel,
    WordRows,
)
from workshop.punctuation.labelled_text import UNLABELLED, LabelledText

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

    The words of `vocabulary` get rows of their own. `habits` are the habits of these words (labelled_text.py).
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
    table_of_words = vectors.table.weight.detach().numpy()
    return PunctuationModel.build(vocabulary, table_of_words, settings.shape, network.weights())


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


# Offsets for the scores of the marks. The likeliest mark is too often none: with offsets, F1 is higher.

_STEPS = tuple(0.15 * step for step in range(13))
_ROUNDS = 2


def best_offsets(scores: Tensor, labels: Tensor) -> Tensor:
    """Return what to add to the scores [words, marks] of each mark for the best F1. Labels are [words]."""
    labelled = labels != UNLABELLED
    scores, labels = scores[labelled], labels[labelled]
    offsets = zeros(scores.shape[1])
    for _ in range(_ROUNDS):
        for mark in range(1, len(offsets)):
            trials = []
            for offset in _STEPS:
                offsets[mark] = offset
                trials.append((_mean_f1(scores + offsets, labels), offset))
            offsets[mark] = max(trials)[1]
    return offsets


def _mean_f1(scores: Tensor, labels: Tensor) -> float:
    likeliest, marks = scores.argmax(1), scores.shape[1]
    right = likeliest[likeliest == labels].bincount(minlength=marks)
    ratios = 2 * right / (likeliest.bincount(minlength=marks) + labels.bincount(minlength=marks)).clamp(min=1)
    return float(ratios[1:].mean())


# Turns labelled text into what a recogniser might hear of it: with wrong words, pauses and ends of segments.

Integers = npt.NDArray[np.int64]

END = -1
"""The number that stands in the place of a word where a segment ends."""
NOTHING = -2

_MARKS = list(Mark)
_COMMA = _MARKS.index(Mark.COMMA)
_ENDS = [number for number, mark in enumerate(_MARKS) if mark.ends_sentence]


@dataclass(frozen=True)
class HeardPiece:
    """Words as a recogniser gave them, the numbers of the pauses before them, and the labels that belong to them."""

    words: Integers
    pauses: Integers
    marks: Integers
    cases: Integers


@dataclass(frozen=True)
class Hearing:
    """How a recogniser hears. The rates are the largest; each piece has rates of its own below them."""

    substituted: float = 0.18
    dropped: float = 0.03
    inserted: float = 0.025
    clean_share: float = 0.35  # the share of pieces without an error
    timeless_share: float = 0.3  # the share of pieces without pauses
    hesitant_share: float = 0.3  # the share of pieces with pauses at any place
    ending_share: float = 0.75  # the share of pieces that go up to the end of a segment
    sentence_end_share: float = 0.88  # the share of segments that end with a sentence, because most long pauses do
    comma_end_share: float = 0.06  # the share of segments that end with a comma; the others end anywhere
    silent_end_share: float = 0.7  # the share of segments that end after a long pause
    mean_words: float = 28.0
    most_words: int = 96


class HeardText:
    """Draws pieces from the text of several sources."""

    def __init__(
        self,
        sources: Mapping[str, LabelledText],
        similar: npt.NDArray[np.int32],
        seed: int,
        hearing: Hearing | None = None,
    ) -> None:
        self._sources = [text for text in sources.values() if len(text)]
        sizes = np.array([len(text) for text in self._sources], dtype=float) ** 0.8
        self._chances = sizes / sizes.sum()
        self._similar = similar
        self._dice = np.random.default_rng(seed)
        self._hearing = hearing or Hearing()
        self._short = self._short_words()

    def piece(self) -> HeardPiece:
        """Draw a piece of running text, as it was heard."""
        dice, hearing = self._dice, self._hearing
        text = self._sources[dice.choice(len(self._sources), p=self._chances)]
        start = int(dice.integers(len(text)))
        if dice.random() < 0.85:  # a stream mostly begins with a sentence
            begins = np.flatnonzero(text.begins[start : start + hearing.most_words])
            start += int(begins[0]) if len(begins) else 0
        part = text.part(start, start + hearing.most_words)
        breaks = np.flatnonzero(part.begins[1:] == 2)
        if len(breaks):
            part = part.part(0, int(breaks[0]) + 1)
        length = min(2 + int(dice.exponential(hearing.mean_words)), len(part))
        ends = dice.random() < hearing.ending_share
        part = part.part(0, self._segment_end(part, length) if ends else length)
        words, marks, cases = self._misheard(part)
        pauses = self._paused(marks)
        if ends:
            words, marks, cases = np.append(words, END), np.append(marks, UNLABELLED), np.append(cases, UNLABELLED)
            # The pause is short if somebody stops the recording.
            shortest = LONG if dice.random() < hearing.silent_end_share else 1
            pauses = np.append(pauses, dice.integers(shortest, PAUSES))
        return HeardPiece(words, pauses, marks, cases)

    def row(self, places: int, gap: int) -> HeardPiece:
        """Draw as many pieces as these places can hold, with gaps between them."""
        parts, free = [], places
        while free > 8:
            piece = self.piece()
            size = min(len(piece.words), free)
            parts.append([values[:size] for values in vars(piece).values()])
            free -= size
            empty = min(gap, free)
            parts.append([np.full(empty, fill) for fill in (NOTHING, 0, UNLABELLED, UNLABELLED)])
            free -= empty
        parts.append([np.full(free, fill) for fill in (NOTHING, 0, UNLABELLED, UNLABELLED)])
        return HeardPiece(*(np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)))

    def _segment_end(self, part: LabelledText, length: int) -> int:
        """Return after how many words the segment ends: about `length`, in most cases at the end of a sentence."""
        choice, hearing = self._dice.random(), self._hearing
        if choice < hearing.sentence_end_share:
            kinds = _ENDS
        elif choice < hearing.sentence_end_share + hearing.comma_end_share:
            kinds = [_COMMA]
        else:
            return length
        places = np.flatnonzero(np.isin(part.marks, kinds)) + 1
        if not len(places):
            return length
        later = places[places >= length]
        return int(later[0] if len(later) else places[-1])

    def _misheard(self, part: LabelledText) -> tuple[Integers, Integers, Integers]:
        dice, hearing = self._dice, self._hearing
        words, marks, cases = (np.array(values, dtype=np.int64) for values in (part.words, part.marks, part.cases))
        if dice.random() < hearing.clean_share:
            return words, marks, cases
        rate = dice.random()
        size = len(words)
        wrong = dice.random(size) < rate * hearing.substituted
        similar = self._similar[words, dice.integers(ALIKE, size=size)]
        wrong &= similar != words
        words[wrong], cases[wrong] = similar[wrong], UNLABELLED
        # A dropped word leaves its mark to the word before it. The first word is never dropped.
        lost = dice.random(size) < rate * hearing.dropped * np.where(np.isin(words, self._short), 2.0, 0.5)
        lost[0] = False
        for place in np.flatnonzero(lost)[::-1]:
            if marks[place - 1] == 0:
                marks[place - 1] = marks[place]
        words, marks, cases = words[~lost], marks[~lost], cases[~lost]
        added = np.flatnonzero(dice.random(len(words)) < rate * hearing.inserted)
        if len(added) and len(self._short):
            # The word is inserted before another one, so it has no mark itself.
            words = np.insert(words, added, dice.choice(self._short, len(added)))
            marks, cases = np.insert(marks, added, 0), np.insert(cases, added, UNLABELLED)
        return words, marks, cases

    def _paused(self, marks: Integers) -> Integers:
        """Draw the numbers of the pauses before the words. 0 is an unknown pause, as before the first word."""
        dice, hearing = self._dice, self._hearing
        pauses = np.zeros(len(marks), dtype=np.int64)
        choice = dice.random()
        if choice < hearing.timeless_share or len(marks) < 2:
            return pauses
        statistics = READ_ALOUD
        if choice < hearing.timeless_share + hearing.hesitant_share:
            statistics = hesitant(READ_ALOUD, 0.25 * dice.random())
        chances = statistics.cumsum(axis=1)[np.maximum(marks[:-1], 0)]
        drawn = 1 + (dice.random(len(marks) - 1)[:, None] * chances[:, -1:] > chances[:, :-1]).sum(axis=1)
        pauses[1:] = np.where(dice.random(len(drawn)) < 0.02, 0, drawn)
        return pauses

    def _short_words(self) -> Integers:
        """Return the words that recognisers lose and add: the most frequent ones."""
        counts = np.zeros(len(self._similar), dtype=np.int64)
        for text in self._sources:
            counts += np.bincount(text.words, minlength=len(counts))
        return np.argsort(-counts)[:30].astype(np.int64)


# How long speakers pause after a word, by the mark that follows it.

Floats = npt.NDArray[np.float64]

# From the recogniser's times in 147 recordings of LJSpeech and LibriSpeech. Questions have the figures of full stops.
# Rows: no mark, comma, full stop, question mark. Columns: the pauses that the network tells apart, shortest first.
READ_ALOUD: Floats = np.array(
    [
        [0.82, 0.127, 0.025, 0.017, 0.009, 0.0015, 0.0005],
        [0.143, 0.131, 0.155, 0.28, 0.256, 0.033, 0.002],
        [0.02, 0.01, 0.023, 0.047, 0.16, 0.37, 0.37],
        [0.02, 0.01, 0.023, 0.047, 0.16, 0.37, 0.37],
    ]
)
LONG = PAUSES - 2
"""A segment may end at a pause with this number or a higher one."""


def hesitant(statistics: Floats, share: float) -> Floats:
    """Return the statistics of somebody who also pauses at any place, as after a comma."""
    return (1 - share) * statistics + share * statistics[1]


# Finds words that a recogniser may confuse, because their pronunciations differ in at most two phones.

WordIds = npt.NDArray[np.int32]

ALIKE = 8
"""The number of similar words for each word."""

# A recogniser confuses words with the same phones this much more often than words with different phones.
_HOMOPHONE = 6.0
_MOST_IN_GROUP = 400


def similar_words(words: Sequence[str], lexicon: Lexicon, language: LanguageModel) -> WordIds:
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


def _drawn(number: int, ways: Iterable[Pronunciation], weights: npt.NDArray[np.float64]) -> WordIds:
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


# The network in torch, as it is trained. `CompiledMarks` computes the same where torch is missing.


class MarkNetwork(nn.Module):
    """Computes the scores of marks and cases from word vectors and pauses."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.pauses = nn.Embedding(PAUSES, shape.embedding)
        self.end = nn.Parameter(torch.zeros(shape.embedding))
        sizes = [shape.embedding] + [shape.width] * len(shape.views)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in sizes)
        self.convolutions = nn.ModuleList(
            nn.Linear(size * len(view), shape.width) for size, view in zip(sizes, shape.views, strict=False)
        )
        self.judge = nn.Linear(shape.width, MARKS + CASES)

    def forward(self, vectors: Tensor, pauses: Tensor, occupied: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of marks [rows, places, 4] and of cases [rows, places, 3].

        `vectors` [rows, places, embedding] has the vectors of words or `end`; `pauses` [rows, places] has the classes
        of the pauses before them; `occupied` [rows, places] is 1 where there is a word or an end, and otherwise 0.
        """
        mask = occupied.unsqueeze(2)
        hidden = vectors + self.pauses(pauses)
        for norm, convolution, view in zip(self.norms, self.convolutions, self.shape.views, strict=False):
            inputs = _in_view(norm(hidden) * mask, view)
            output = functional.relu(convolution(inputs))
            hidden = output if hidden.shape != output.shape else hidden + output
        scores = self.judge(self.norms[-1](hidden))
        return scores[..., :MARKS], scores[..., MARKS:]

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the weights as arrays of numpy."""
        return {name: part.numpy() for name, part in self.state_dict().items()}


def _in_view(hidden: Tensor, view: Sequence[int]) -> Tensor:
    """Return the vectors of the places in view, side by side. There are zeros beyond the ends."""
    before, after, places = -min(view), max(view), hidden.shape[1]
    padded = functional.pad(hidden, (0, 0, before, after))
    return torch.cat([padded[:, before + place : before + place + places] for place in view], dim=2)
