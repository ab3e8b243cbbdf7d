"""Trains the neural language model: sampled softmax, Adam, and a rate that falls to zero at the end of the plan.

The scores themselves have to be log-probabilities, because the search has no time to add up those of all words. So the
logarithm of their sum is drawn to zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from streamer.engine.language.language_model import SENTENCE_END, LanguageModel
from streamer.engine.language.neural_model import OTHERS, SENTENCE_START, NeuralModel
from streamer.engine.language.rescoring import Rescorer
from streamer.text.counts import counted
from streamer.training.language.held_out_text import HeldOutText
from streamer.training.language.text_sources import Reference, read_texts, read_transcripts
from streamer.training.precision import faster
from streamer.training.rescoring.sentence_batches import SentenceBatches, renumbered

RATE, LAST_RATE = 2.5e-3, 0.02  # the last as a share of the rate
GOING_ON = 0.5  # the share of the rate with which the training of a model goes on
SUM_WEIGHT = 0.1  # of the square of the logarithm of the sum
FALL = 0.7  # the last share of the plan, in which the rate falls
WARM_UP = 100  # steps
LARGEST_GRADIENT = 1.0
SAMPLES = 1024
FLATNESS = 0.75  # the power of a word's probability with which it is drawn as a wrong one
TELL_S = 120.0
SHARE = 0.4  # of the model in the mixture whose perplexity is told
_IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class NeuralRecipe:
    """The text, the sizes and the time of a training."""

    archives: list[Path]
    dev: Path
    train: Path | None = None
    minutes: float = 30.0
    batches: int = 0  # if given, how many are read, whatever the time
    words: int = 12_000
    vector: int = 128
    memory: int = 256
    seed: int = 0
    start: Path | None = None  # a model whose training goes on; its sizes count


class SampledLoss:
    """The cross-entropy of each word among some others, which are drawn for the whole batch (sampled softmax).

    Each score is lowered by the logarithm of how likely the word is among them, so that the scores learnt are those of
    all words. A word that is drawn several times counts once, because the right one is there only once too.
    """

    def __init__(self, chances: Tensor) -> None:
        flat = (chances + 1e-7) ** FLATNESS
        self._drawn = flat / flat.sum()
        self._corrections = (1 - (1 - self._drawn.double()) ** SAMPLES).log().float()

    def __call__(self, model: NeuralModel, sentences: Tensor) -> Tensor:
        starts = torch.full((len(sentences), 1), SENTENCE_START)
        with faster(model.bias.device):
            expected = model.hidden(torch.cat((starts, sentences[:, :-1]), 1)).flatten(0, 1)
        expected = expected.float()  # sums of exponentials need its precision
        words, others = sentences.reshape(-1), torch.multinomial(self._drawn, SAMPLES, replacement=True).unique()
        right = (expected * model.vectors(words)).sum(1) + model.bias[words] - self._corrections[words]
        drawn = torch.addmm(model.bias[others] - self._corrections[others], expected, model.vectors(others).T)
        wrong = drawn.masked_fill(others == words.unsqueeze(1), _IMPOSSIBLE)
        loss = torch.logaddexp(right, wrong.logsumexp(1)) - right
        # The words that were drawn stand for all words, so this is an estimate of the whole sum.
        return (loss + SUM_WEIGHT * drawn.logsumexp(1).square()).mean()


def train(recipe: NeuralRecipe, language_file: Path, output: Path, tell: Callable[[str], None]) -> None:
    """Read the text, train for the minutes of the plan, and write the model every few minutes and at the end."""
    language = LanguageModel.load(language_file)
    references = read_transcripts(recipe.dev)
    texts = read_texts(recipe.archives, recipe.train, references)
    tell(f"{counted(texts.left_out, 'sentence')} left out: dev has the whole or a long stretch")
    model = NeuralModel.load(recipe.start).train() if recipe.start else None
    size = model.size if model else min(recipe.words, len(language.words))
    batches = SentenceBatches(renumbered(texts.sources, texts.words, language.words), size, recipe.seed)
    chances = batches.chances(size)
    tell("shares: " + ", ".join(f"{name} {share:.3f}" for name, share in batches.shares.items()))
    torch.manual_seed(recipe.seed)
    rate = RATE * GOING_ON if model else RATE
    model = model or fresh_model(recipe, language, chances)
    for line in steps(model, iter(batches), chances, rate, recipe.minutes * 60, recipe.batches):
        tell(line)
        model.save(output)
    model.save(output)
    for line in perplexities(NeuralModel.load(output), language, references):
        tell(line)
    tell(f"{output}: {output.stat().st_size / 1e6:.2f} MB")


def fresh_model(recipe: NeuralRecipe, language: LanguageModel, chances: Tensor) -> NeuralModel:
    """A model that expects every word as often as it is said."""
    model = NeuralModel(len(chances), recipe.vector, recipe.memory, language.vocabulary)
    nn.init.normal_(model.vectors.weight, 0.0, 0.08)
    model.bias.data = (chances + 1e-7).log().float()
    return model


def steps(
    model: NeuralModel, batches: Iterator[Tensor], chances: Tensor, rate: float, seconds: float,
    number_of_batches: int = 0,
) -> Iterator[str]:  # fmt: skip
    """Train for so long, or on so many batches. Says now and then how far it is."""
    loss_of = SampledLoss(chances)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    started, told, words, recent = time.monotonic(), 0.0, 0, 0.0
    for number, sentences in enumerate(batches, 1):
        spent = time.monotonic() - started
        done = number / number_of_batches if number_of_batches else spent / seconds
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, number / WARM_UP) * _falling(done)
        loss = loss_of(model, sentences)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        words += sentences.numel()
        recent += 0.01 * (loss.item() - recent) if number > 1 else loss.item()
        if done >= 1:
            break
        if spent - told >= TELL_S:
            told = spent
            yield f"{spent / 60:.1f} min, {words / 1e6:.2f} M words, loss {recent:.3f}"
    yield f"{words / 1e6:.2f} M words in {number} steps, loss {recent:.3f}"


def _falling(done: float) -> float:
    return min(1.0, max(LAST_RATE, (1 - done) / FALL))


def perplexities(model: NeuralModel, language: LanguageModel, references: list[Reference]) -> list[str]:
    """Lines with the perplexities of the n-gram model, of the neural one and of their mixture on dev.

    Here probabilities are divided by their sums, which the last line tells.
    """
    rescorer, dev = Rescorer(model, language), HeldOutText.number(references, language.words)
    numbers = {word: number for number, word in enumerate(language.words)}
    said = []
    for reference in references:
        context = rescorer.start()
        for word in reference.words:
            said.append((context, numbers.get(word, OTHERS)))
            context = rescorer.after(context, said[-1][1])
        said.append((context, SENTENCE_END))
    scores = rescorer.score(said)
    sums = model.sums(torch.stack([context.memory for context, _ in said if context.memory is not None]))
    neural, ngram = (scores.neural - sums).double().exp().numpy(), scores.ngram.double().exp().numpy()
    mixed = (1 - SHARE) * ngram + SHARE * neural
    found = {"n-gram": ngram, "neural": neural, f"mixed {1 - SHARE:g} : {SHARE:g}": mixed}
    told = f"logarithm of the sum of all probabilities: mean {sums.mean():.2f}, deviation {sums.std():.2f}"
    return [*(dev.perplexities(title, values) for title, values in found.items()), told]
