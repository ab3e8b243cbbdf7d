"""The training of the neural language model, on text of a few words."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import SENTENCE_START, NeuralModel
from streamer.training.data.corpus import CorpusError
from streamer.training.language.language_model_building import Recipe, build
from streamer.training.rescoring.neural_training import NeuralRecipe, SampledLoss, train
from tests.training.language.text_folder import make_texts


def test_a_model_from_text(tmp_path: Path) -> None:
    """It learns what follows what, is written for the words of the language model, and its perplexities are told."""
    texts = make_texts(tmp_path)
    language = tmp_path / "language.safetensors"
    archives = [texts / "old.tar.xz", texts / "new.tar.xz"]
    build(Recipe(archives, texts / "dev.tsv"), language, None, lambda line: None)
    told: list[str] = []
    output = tmp_path / "rescoring.safetensors"
    recipe = NeuralRecipe(archives, texts / "dev.tsv", texts / "train.tsv", batches=250, vector=16, memory=16)
    train(recipe, language, output, told.append)
    model, ngrams = NeuralModel.load(output), LanguageModel.load(language)
    assert (model.size, model.vocabulary) == (len(ngrams.words), ngrams.vocabulary)
    memory = model.read(model.nothing_read.unsqueeze(0), torch.tensor([SENTENCE_START]))
    for word in ("the", "cat", "sees", "the"):
        memory = model.read(memory, torch.tensor([ngrams.words.index(word)]))
    dog, sees = model.score(memory.expand(2, -1), torch.tensor([ngrams.words.index(word) for word in ("dog", "sees")]))
    assert dog > sees
    assert float(model.sums(memory)[0].abs()) < 1
    titles = [line.split(", other half")[0] for line in told if line.startswith("perplexity")]
    assert titles == ["perplexity, n-gram", "perplexity, neural", "perplexity, mixed 0.6 : 0.4"]


def test_the_sampled_loss_leads_to_the_true_probabilities() -> None:
    """Although only some words are compared: rare ones are neither favoured nor forgotten, and all add up to one."""
    torch.manual_seed(0)
    chances = torch.tensor([0.0, 0.0, 0.5, 0.3, 0.15, 0.05])
    model = NeuralModel(len(chances), 2, 2)
    with torch.no_grad():
        model.vectors.weight.zero_()  # only the biases matter
    loss_of = SampledLoss(chances)
    optimiser = torch.optim.Adam([model.bias], lr=0.05)
    for _ in itertools.repeat(None, 300):
        sentences = torch.multinomial(chances, 512, replacement=True).unsqueeze(1)
        optimiser.zero_grad()
        loss_of(model, sentences).backward()
        optimiser.step()
    assert torch.allclose(model.bias.detach()[2:].exp(), chances[2:], atol=0.04)


def test_training_goes_on(tmp_path: Path) -> None:
    """From a model that was written before, with its sizes."""
    texts = make_texts(tmp_path)
    language = tmp_path / "language.safetensors"
    archives = [texts / "old.tar.xz", texts / "new.tar.xz"]
    build(Recipe(archives, texts / "dev.tsv"), language, None, lambda line: None)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    train(NeuralRecipe(archives, texts / "dev.tsv", batches=40, vector=16, memory=24), language, first, print)
    told: list[str] = []
    train(NeuralRecipe(archives, texts / "dev.tsv", batches=40, start=first), language, second, told.append)
    before, after = NeuralModel.load(first), NeuralModel.load(second)
    assert (after.vectors.embedding_dim, after.recall.hidden_size) == (16, 24)
    assert not torch.equal(before.bias, after.bias)


def test_missing_text_is_named(tmp_path: Path) -> None:
    """In one sentence, before anything is written."""
    texts = make_texts(tmp_path)
    build(Recipe([texts / "old.tar.xz"], texts / "dev.tsv"), tmp_path / "language.safetensors", None, lambda line: None)
    with pytest.raises(CorpusError, match=r"none\.tar\.xz is missing"):
        train(
            NeuralRecipe([texts / "none.tar.xz"], texts / "dev.tsv"), tmp_path / "language.safetensors",
            tmp_path / "rescoring.safetensors", print,
        )  # fmt: skip
    assert not (tmp_path / "rescoring.safetensors").exists()
