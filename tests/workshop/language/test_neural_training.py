"""The training of the neural language model on text of a few words, in batches from several sources."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from streamer.engine.language.language_model import LanguageModel
from streamer.engine.language.neural_model import SENTENCE_START, Memory
from streamer.engine.networks.neural_network import NeuralNetwork
from tests.workshop.language.text_folder import make_texts
from workshop.data.corpus import CorpusError
from workshop.language import neural_training
from workshop.language.language_model_building import Recipe, build
from workshop.language.neural_training import (
    BATCH_WORDS,
    LONGEST,
    NeuralRecipe,
    SampledLoss,
    SentenceBatches,
    WholeLoss,
    grow,
    renumbered,
    train,
)
from workshop.language.ngrams import END_ID, UNKNOWN_ID


def made_language(folder: Path) -> tuple[Path, list[Path], Path]:
    """A folder of text, its archives, and the n-gram model that was built from them."""
    texts, language = make_texts(folder), folder / "language.safetensors"
    archives = [texts / "old.tar.xz", texts / "new.tar.xz"]
    build(Recipe(archives, texts / "dev.tsv"), language, None, lambda line: None)
    return texts, archives, language


def test_a_model_from_text(tmp_path: Path) -> None:
    """A model learns which words follow, is written for the language model's words, and reports perplexities."""
    texts, archives, language = made_language(tmp_path)
    told: list[str] = []
    output = tmp_path / "rescoring.safetensors"
    recipe = NeuralRecipe(archives, texts / "dev.tsv", texts / "train.tsv", batches=250, vector=16, memory=16)
    train(recipe, language, output, told.append)
    model, ngrams = NeuralNetwork.load(output), LanguageModel.load(language)
    assert (model.size, model.vocabulary) == (len(ngrams.words), ngrams.vocabulary)
    memory = model.read([None], [SENTENCE_START])
    for word in ("the", "cat", "sees", "the"):
        memory = model.read(memory, [ngrams.words.index(word)])
    dog, sees = model.score(memory * 2, [ngrams.words.index(word) for word in ("dog", "sees")])
    assert dog > sees
    assert abs(float(model.sums(memory)[0])) < 1
    titles = [line.split(", other half")[0] for line in told if line.startswith("perplexity")]
    assert titles == ["perplexity, n-gram", "perplexity, neural", "perplexity, mixed 0.6 : 0.4"]


CHANCES = torch.tensor([0.0, 0.0, 0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize("loss_of", [SampledLoss(CHANCES), WholeLoss()])
def test_a_loss_leads_to_the_true_probabilities(loss_of: SampledLoss | WholeLoss) -> None:
    """If only some words are compared, rare ones are neither favoured nor forgotten, and all add up to one."""
    torch.manual_seed(0)
    model = NeuralNetwork(len(CHANCES), 2, 2)
    with torch.no_grad():
        model.vectors.weight.zero_()  # only the biases matter
    optimiser = torch.optim.Adam([model.bias], lr=0.05)
    for _ in itertools.repeat(None, 300):
        sentences = torch.multinomial(CHANCES, 512, replacement=True).unsqueeze(1)
        optimiser.zero_grad()
        loss_of(model, sentences).backward()
        optimiser.step()
    assert torch.allclose(model.bias.detach()[2:].exp(), CHANCES[2:], atol=0.04)


def test_training_goes_on(tmp_path: Path) -> None:
    """Training continues from a written model with its sizes, and the order of the text is always another."""
    texts, archives, language = made_language(tmp_path)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    train(NeuralRecipe(archives, texts / "dev.tsv", batches=40, vector=16, memory=24), language, first, print)
    told: list[str] = []
    further = NeuralRecipe(archives, texts / "dev.tsv", batches=40, dropout=0.1, start=first)
    train(further, language, second, told.append)
    assert len({recipe.order for recipe in (NeuralRecipe([], first), further, replace(further, start=second))}) == 3
    before, after = NeuralNetwork.load(first), NeuralNetwork.load(second)
    assert (after.vectors.embedding_dim, after.recall.hidden_size) == (16, 24)
    assert not torch.equal(before.bias, after.bias)


def test_training_goes_on_with_a_larger_model(tmp_path: Path) -> None:
    """The larger model begins with the results of the small one, and its new parts learn."""
    texts, archives, language = made_language(tmp_path)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    small = NeuralRecipe(archives, texts / "dev.tsv", batches=40, words=8, vector=4, memory=5)
    train(small, language, first, print)
    before = NeuralNetwork.load(first)
    grown = NeuralNetwork(10, 6, 9, before.vocabulary)
    grow(before, grown)
    memories: list[list[Memory | None]] = [[None], [None]]
    for word in (SENTENCE_START, 3, 7, 2):
        memories = [[*model.read(memory, [word])] for model, memory in zip((before, grown), memories, strict=True)]
        old, new = (model.score(memory * 8, range(8)) for model, memory in zip((before, grown), memories, strict=True))
        assert np.allclose(old, new, atol=1e-5)
    larger = NeuralRecipe(archives, texts / "dev.tsv", batches=40, words=100, memory=9, start=first)
    train(larger, language, second, print)
    after = NeuralNetwork.load(second)
    assert after.sizes == (len(LanguageModel.load(language).words), 4, 9)
    assert after.expect.weight[:, 5:].abs().min() > 0


def test_a_model_for_other_words_is_not_trained_on(tmp_path: Path) -> None:
    """A model for other words is refused, because its numbers would mean other words."""
    texts = make_texts(tmp_path)
    language, other = tmp_path / "language.safetensors", tmp_path / "other.safetensors"
    build(Recipe([texts / "old.tar.xz"], texts / "dev.tsv"), language, None, lambda line: None)
    NeuralNetwork(8, 4, 5, "others").save(other)
    with pytest.raises(ValueError, match="trained for other words"):
        train(
            NeuralRecipe([texts / "old.tar.xz"], texts / "dev.tsv", start=other),
            language,
            tmp_path / "rescoring.safetensors",
            print,
        )


def test_missing_text_is_named(tmp_path: Path) -> None:
    """One sentence names the missing text, before anything is written."""
    texts = make_texts(tmp_path)
    build(Recipe([texts / "old.tar.xz"], texts / "dev.tsv"), tmp_path / "language.safetensors", None, lambda line: None)
    with pytest.raises(CorpusError, match=r"none\.tar\.xz is missing"):
        train(
            NeuralRecipe([texts / "none.tar.xz"], texts / "dev.tsv"),
            tmp_path / "language.safetensors",
            tmp_path / "rescoring.safetensors",
            print,
        )
    assert not (tmp_path / "rescoring.safetensors").exists()


def numbered(sentences: list[list[int]]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Sentences with their end marks."""
    return np.array([word for sentence in sentences for word in (*sentence, END_ID)], dtype=np.int32)


def test_a_batch_has_sentences_of_one_length() -> None:
    """A batch is filled. Long sentences are cut, rare words are unknown, and empty sentences are left out."""
    sources = {"novels": numbered([[3, 4], [5, 9], [], [6] * 100]), "web": numbered([[7, 8, 3]])}
    lengths = set()
    for batch in itertools.islice(SentenceBatches(sources, 8, 0), 300):
        sentences = {tuple(row) for row in batch.tolist()}
        lengths.add(batch.shape[1])
        assert len(batch) == max(BATCH_WORDS // batch.shape[1], 1)
        assert sentences <= {(3, 4, END_ID), (5, UNKNOWN_ID, END_ID), (7, UNKNOWN_ID, 3, END_ID), (6,) * LONGEST}
    assert lengths == {3, 4, LONGEST}


def test_sources_are_drawn_by_their_shares() -> None:
    """A small source with a share of its own is drawn more often than its length says."""
    sources = {"fiction": numbered([[3] * 9] * 10), "web": numbered([[4] * 9] * 990)}
    batches = SentenceBatches(sources, 5, 0)
    drawn = np.sum([np.bincount(batch.flatten(), minlength=5) for batch in itertools.islice(batches, 200)], axis=0)
    wanted = batches.shares["fiction"] / sum(batches.shares.values())
    assert wanted > 0.1
    assert drawn[3] / (drawn[3] + drawn[4]) == pytest.approx(wanted, abs=0.02)
    chances = batches.chances(5)
    assert float(chances.sum()) == pytest.approx(1.0)
    assert float(chances[3]) == pytest.approx(0.9 * wanted)


def test_the_largest_source_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A very large source gets no larger share than a source with the greatest counted number of words."""
    monkeypatch.setattr(neural_training, "LARGEST", 90)
    sources = {"speeches": numbered([[3] * 9] * 990), "web": numbered([[4] * 9] * 10)}
    shares = SentenceBatches(sources, 5, 0).shares
    assert shares["speeches"] == pytest.approx(shares["web"])


def test_no_text_is_refused() -> None:
    """Sources without text are refused, because they give no batch."""
    with pytest.raises(CorpusError, match="no text"):
        SentenceBatches({"web": numbered([[]])}, 5, 0)


def test_texts_get_the_numbers_of_the_language_model() -> None:
    """Words that the language model lacks become the unknown word, and a sentence ends with its mark."""
    found = renumbered(
        {"web": np.array([1, 2, -1], np.int32)}, ["<unk>", "cat", "zebu"], ["<unk>", "<s>", "</s>", "cat"]
    )
    assert found["web"].tolist() == [3, UNKNOWN_ID, END_ID]
