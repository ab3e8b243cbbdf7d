"""Trains the neural language model on batches from all sources, and makes one larger without changing its scores.

The scores must be log-probabilities, because the search has no time to normalise them over all words. So the logarithm
of the sum of all probabilities is drawn to zero.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from streamer.base.text import counted
from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS, SENTENCE_START, check_vocabulary
from streamer.engine.networks.neural_network import NeuralNetwork
from streamer.engine.search.rescoring import Rescorer
from workshop.data.corpus import CorpusError
from workshop.language.language_model_building import HeldOutText
from workshop.language.ngrams import END_ID, UNKNOWN_ID
from workshop.language.text_sources import SENTENCE_END as END_OF_SENTENCE
from workshop.language.text_sources import Ids, Reference, read_texts, read_transcripts
from workshop.weights import faster

SIZES = 12_000, 128, 256  # words, numbers for each, numbers remembered
RATE, LAST_RATE = 2.5e-3, 0.02  # the last rate is a share of the first
GOING_ON = 0.5  # the share of the rate with which the training of a model goes on
SUM_WEIGHT = 0.1  # the weight of the squared logarithm of the sum
FALL = 0.7  # the last share of the plan, in which the rate falls
WARM_UP = 100  # steps
LARGEST_GRADIENT = 1.0
SAMPLES = 1024
GPU_BATCH_WORDS = 16_384
FLATNESS = 0.75  # the power of a word's probability with which it is drawn as a wrong one
TELL_S = 120.0
SHARE = 0.4  # the share of the model in the mixture whose perplexity is reported
_IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class NeuralRecipe:
    """The text, the sizes and the time of a training."""

    archives: list[Path]
    dev: Path
    train: Path | None = None
    minutes: float = 30.0
    batches: int = 0  # train on this many batches instead of for these minutes
    # Sizes that are not given are those of the model to start from, or those of SIZES.
    words: int | None = None
    vector: int | None = None
    memory: int | None = None
    seed: int = 0
    dropout: float = 0.0  # the share of the numbers that are left out at random, against learning by heart
    start: Path | None = None  # a model whose training goes on; it grows if larger sizes are given
    device: str = "cpu"

    def sizes(self, start: NeuralNetwork | None, language: LanguageModel) -> tuple[int, int, int]:
        """Return how many words the model knows, the numbers for each, and the numbers that it remembers."""
        sizes = self.words, self.vector, self.memory
        least = start.sizes if start else (0, 0, 0)
        usual = start.sizes if start else SIZES
        words, vector, memory = (
            max(usual_size if size is None else size, least_size)
            for size, usual_size, least_size in zip(sizes, usual, least, strict=True)
        )
        return min(words, len(language.words)), vector, memory

    @property
    def order(self) -> int:
        """The seed of the order of the text. A training that goes on must not read first what the last one read."""
        return self.seed + (zlib.crc32(self.start.read_bytes()) if self.start else 0)


class SampledLoss:
    """The cross-entropy of each word among some others, which are drawn for the whole batch (sampled softmax).

    This is for CPUs. Each score is lowered by the logarithm of how likely the word is among them, so that the scores
    learnt are those of all words. A word that is drawn several times counts once, because the right one is there only
    once too.
    """

    def __init__(self, chances: Tensor, dropout: float = 0.0) -> None:
        self._dropout = dropout
        flat = (chances + 1e-7) ** FLATNESS
        self._drawn = flat / flat.sum()
        self._corrections = (1 - (1 - self._drawn.double()) ** SAMPLES).log().float()

    def __call__(self, model: NeuralNetwork, sentences: Tensor) -> Tensor:
        expected = _expected(model, sentences, self._dropout).float()  # sums of exponentials need its precision
        words, others = sentences.reshape(-1), torch.multinomial(self._drawn, SAMPLES, replacement=True).unique()
        right = (expected * model.vectors(words)).sum(1) + model.bias[words] - self._corrections[words]
        drawn = torch.addmm(model.bias[others] - self._corrections[others], expected, model.vectors(others).T)
        wrong = drawn.masked_fill(others == words.unsqueeze(1), _IMPOSSIBLE)
        loss = torch.logaddexp(right, wrong.logsumexp(1)) - right
        # The words that were drawn stand for all words, so this is an estimate of the whole sum.
        return (loss + SUM_WEIGHT * drawn.logsumexp(1).square()).mean()


class WholeLoss:
    """The cross-entropy of each word among all words. A GPU has the time for that."""

    def __init__(self, dropout: float = 0.0) -> None:
        self._dropout = dropout

    def __call__(self, model: NeuralNetwork, sentences: Tensor) -> Tensor:
        expected = _expected(model, sentences, self._dropout)
        with faster(model.bias.device):
            scores = nn.functional.linear(expected, model.vectors.weight, model.bias)
        total = scores.float().logsumexp(1)
        right = scores.gather(1, sentences.reshape(-1, 1)).squeeze(1).float()
        return (total - right + SUM_WEIGHT * total.square()).mean()


def _expected(model: NeuralNetwork, sentences: Tensor, dropout: float) -> Tensor:
    """Return the vector that the model expects at each word of all sentences."""
    starts = sentences.new_full((len(sentences), 1), SENTENCE_START)
    with faster(model.bias.device):
        return model.hidden(torch.cat((starts, sentences[:, :-1]), 1), dropout).flatten(0, 1)


def train(recipe: NeuralRecipe, language_file: Path, output: Path, tell: Callable[[str], None]) -> None:
    """Read the text, train for the minutes of the plan, and write the model every few minutes and at the end."""
    language = LanguageModel.load(language_file)
    references = read_transcripts(recipe.dev)
    texts = read_texts(recipe.archives, recipe.train, references)
    tell(f"{counted(texts.left_out, 'sentence')} left out: dev has the whole or a long stretch")
    start = NeuralNetwork.load(recipe.start) if recipe.start else None
    if start:
        check_vocabulary(start, language)
    sizes = recipe.sizes(start, language)
    gpu = torch.device(recipe.device).type == "cuda"
    sources = renumbered(texts.sources, texts.words, list(language.words))
    batches = SentenceBatches(sources, sizes[0], recipe.order, GPU_BATCH_WORDS if gpu else BATCH_WORDS)
    chances = batches.chances(sizes[0])
    tell("shares: " + ", ".join(f"{name} {share:.3f}" for name, share in batches.shares.items()))
    torch.manual_seed(recipe.seed)
    model, rate = NeuralNetwork(*sizes, language.vocabulary), RATE
    expect_as_often_as_said(model, chances)
    if start:
        grow(start, model)
        rate = RATE if model.sizes != start.sizes else RATE * GOING_ON
    loss_of = WholeLoss(recipe.dropout) if gpu else SampledLoss(chances, recipe.dropout)
    model.to(recipe.device)
    for line in steps(model, iter(batches), loss_of, rate, recipe.minutes * 60, recipe.batches):
        tell(line)
        model.save(output)
    model.save(output)
    for line in perplexities(NeuralNetwork.load(output), language, references):
        tell(line)
    tell(f"{output}: {output.stat().st_size / 1e6:.2f} MB")


def expect_as_often_as_said(model: NeuralNetwork, chances: Tensor) -> None:
    """Let a fresh model expect every word as often as it is said."""
    nn.init.normal_(model.vectors.weight, 0.0, 0.08)
    model.bias.data = (chances + 1e-7).log().float()


def steps(
    model: NeuralNetwork,
    batches: Iterator[Tensor],
    loss_of: SampledLoss | WholeLoss,
    rate: float,
    seconds: float,
    number_of_batches: int = 0,
) -> Iterator[str]:
    """Train for these seconds, or on this many batches. Yields the progress every few minutes."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    started, reported, words, recent = time.monotonic(), 0.0, 0, torch.zeros(())
    for number, sentences in enumerate(batches, 1):
        spent = time.monotonic() - started
        progress = number / number_of_batches if number_of_batches else spent / seconds
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, number / WARM_UP) * _falling(progress)
        loss = loss_of(model, sentences.to(model.bias.device))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        words += sentences.numel()
        recent += 0.01 * (loss.detach() - recent) if number > 1 else loss.detach()
        if progress >= 1:
            break
        if spent - reported >= TELL_S:
            reported = spent
            yield f"{spent / 60:.1f} min, {words / 1e6:.2f} M words, loss {recent:.3f}"
    yield f"{words / 1e6:.2f} M words in {number} steps, loss {recent:.3f}"


def _falling(progress: float) -> float:
    return min(1.0, max(LAST_RATE, (1 - progress) / FALL))


def perplexities(model: NeuralNetwork, language: LanguageModel, references: list[Reference]) -> list[str]:
    """Return lines with the perplexities of the n-gram model, of the neural one and of their mixture on dev.

    Here probabilities are divided by their sums. The last line has the mean of the sums.
    """
    rescorer, dev = Rescorer(model, language), HeldOutText.number(references, list(language.words))
    numbers = {word: number for number, word in enumerate(language.words)}
    places = []
    for reference in references:
        context = rescorer.start()
        for word in reference.words:
            places.append((context, numbers.get(word, OTHERS)))
            context = rescorer.after(context, places[-1][1])
        places.append((context, SENTENCE_END))
    scores = rescorer.score(places)
    sums = model.sums([context.memory for context, _ in places])
    neural, ngram = (np.exp(values.astype(np.float64)) for values in (scores.neural - sums, scores.ngram))
    mixed = (1 - SHARE) * ngram + SHARE * neural
    models = {"n-gram": ngram, "neural": neural, f"mixed {1 - SHARE:g} : {SHARE:g}": mixed}
    summary = f"logarithm of the sum of all probabilities: mean {sums.mean():.2f}, deviation {sums.std():.2f}"
    return [*(dev.perplexities(title, values) for title, values in models.items()), summary]


# Makes a neural language model larger without changing its scores, so that its training need not begin again.

GATES = 4  # the gates of an LSTM


@torch.no_grad()
def grow(small: NeuralNetwork, large: NeuralNetwork) -> None:
    """Write a trained model into a fresh one that is nowhere smaller.

    The new numbers of the large model are random, but the old part does not read them yet. So the words of the small
    model keep their scores, and the new numbers can learn from the first step on.
    """
    _put(small.vectors.weight, large.vectors.weight)
    _put(small.bias, large.bias)
    for old, new in zip(small.expect.parameters(), large.expect.parameters(), strict=True):
        _put(old, new.zero_())
    for old, new in zip(small.recall.parameters(), large.recall.parameters(), strict=True):
        for old_gate, new_gate in zip(old.chunk(GATES), new.chunk(GATES), strict=True):
            new_gate[: len(old_gate)] = 0
            _put(old_gate, new_gate)


def _put(old: Tensor, new: Tensor) -> None:
    new[tuple(slice(size) for size in old.shape)] = old


# Draws batches of sentences for the neural language model from all sources, by the share of each.

# These are near the weights of the n-gram mixture. Small sources have less, so that they are not learnt by heart.
SHARES = {
    "books": 0.2,
    "fiction": 0.12,
    "examples": 0.11,
    "novels": 0.05,
    "transcripts": 0.03,
    "prompts": 0.05,
    "readings": 0.05,
    "dictated": 0.02,
}
EVERYTHING_SHARE = 0.5  # the share of all text, in which each source counts by its length
LARGEST = 14_000_000  # the most words of a source that count there, so that no source crowds out all others
LONGEST = 40  # words of a sentence that are read
BATCH_WORDS = 2048
POOLED_BATCHES = 300  # batches that are drawn at a time, so that there are enough sentences of each length


@dataclass
class _Source:
    """The sentences of one source in random order, again and again."""

    ids: Ids
    starts: Ids
    ends: Ids
    order: Ids
    drawn: int = 0

    @classmethod
    def split(cls, ids: Ids) -> _Source:
        ends = np.flatnonzero(ids == END_ID).astype(np.int32)
        starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int32)
        filled = ends > starts
        return cls(ids, starts[filled], ends[filled], np.zeros(0, np.int32))

    def draw(self, dice: np.random.Generator) -> Ids:
        if self.drawn == len(self.order):
            self.order, self.drawn = dice.permutation(len(self.ends)).astype(np.int32), 0
        number = self.order[self.drawn]
        self.drawn += 1
        return self.ids[self.starts[number] : self.ends[number] + 1][:LONGEST]


class SentenceBatches:
    """Endless batches [sentences, words]. Sentences of a batch have the same length, so they need no padding."""

    def __init__(self, sources: Mapping[str, Ids], words: int, seed: int, batch_words: int = BATCH_WORDS) -> None:
        """`sources` are in the numbers of the n-gram model; those from `words` on become the unknown word."""
        self._batch_words = batch_words
        self._dice = np.random.default_rng(seed)
        lengths = {name: int(np.count_nonzero(ids != END_ID)) for name, ids in sources.items()}
        counted = {name: min(length, LARGEST) for name, length in lengths.items() if length}
        if not counted:
            raise CorpusError("there is no text to learn from")
        total = sum(counted.values())
        self.shares = {
            name: EVERYTHING_SHARE * length / total + SHARES.get(name, 0.0) for name, length in counted.items()
        }
        self._sources = {
            name: _Source.split(np.where(sources[name] < words, sources[name], UNKNOWN_ID).astype(np.int32))
            for name in self.shares
        }
        self._waiting: dict[int, list[Ids]] = {}

    def chances(self, words: int) -> Tensor:
        """Return how likely each word is in these batches, the ends of sentences included."""
        total = sum(self.shares.values())
        chances = np.zeros(words)
        for name, share in self.shares.items():
            ids = self._sources[name].ids
            chances += share / total * np.bincount(ids, minlength=words) / len(ids)
        return torch.from_numpy(chances)

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            self._fill()
            batches = []
            for length, waiting in self._waiting.items():
                size = max(self._batch_words // length, 1)
                self._dice.shuffle(waiting)
                while len(waiting) >= size:
                    batches.append(np.stack(waiting[-size:]))
                    del waiting[-size:]
            for number in self._dice.permutation(len(batches)):
                yield torch.from_numpy(batches[number].astype(np.int64))

    def _fill(self) -> None:
        total = sum(self.shares.values())
        for name, share in self.shares.items():
            missing = POOLED_BATCHES * self._batch_words * share / total
            while missing > 0:
                sentence = self._sources[name].draw(self._dice)
                missing -= len(sentence)
                self._waiting.setdefault(len(sentence), []).append(sentence)


def renumbered(sources: Mapping[str, Ids], words: list[str], vocabulary: list[str]) -> dict[str, Ids]:
    """Turn texts in numbers of `words` into texts in numbers of `known`. An end mark follows each sentence."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    table = np.array([numbers.get(word, UNKNOWN_ID) for word in words] + [END_ID], dtype=np.int32)
    assert END_OF_SENTENCE == -1  # reads the last number of the table
    return {name: table[ids] for name, ids in sources.items()}
