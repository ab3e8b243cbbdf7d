"""The neural language model: its probabilities and its file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from streamer.engine.language.neural_model import SENTENCE_START, Memory, NeuralModel, NeuralWeights, SentenceModel
from streamer.engine.language.reading_graph import CompiledReading
from streamer.engine.model_file import ModelFileError
from streamer.engine.networks.neural_network import NeuralNetwork

SIZE = 12


def made(vector: int = 8, memory: int = 16) -> NeuralModel:
    """Return a model with random weights."""
    torch.manual_seed(0)
    weights = NeuralNetwork(SIZE, vector, memory, "these words").weights()
    return NeuralModel(weights, CompiledReading(weights))


def remembered(model: SentenceModel, *words: int) -> Memory:
    """Return the memory after the beginning of a sentence."""
    memory = None
    for word in (SENTENCE_START, *words):
        [memory] = model.read([memory], [word])
    return memory


@pytest.mark.parametrize("sentence", [[], [5], [10, 3, 4, 5, 9], [3, SIZE, 4, 99]])
def test_it_computes_what_torch_computes(sentence: list[int]) -> None:
    """The scores of all words after a sentence are those of the network."""
    model = made()
    network = NeuralNetwork.of(model.weights)
    found, expected = (one.score([remembered(one, *sentence)] * SIZE, range(SIZE)) for one in (model, network))
    assert np.allclose(found, expected, atol=1e-3)  # outputs are rounded to 14 bits


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 40])
def test_a_sentence_gets_the_same_bits_in_any_company(rows: int) -> None:
    """The bits of a sentence depend neither on the other sentences nor on its row."""
    model, dice = made(64, 128), random.Random(rows)  # large enough for quick products
    alone = [remembered(model, word) for word in range(SIZE)]
    order = [dice.randrange(SIZE) for _ in range(rows)]
    together = model.read([remembered(model)] * rows, order)
    scores = model.score(together, order)
    for row, word in enumerate(order):
        assert np.array_equal(together[row], alone[word])
        assert scores[row] == model.score([alone[word]], [word])[0]


def test_words_that_it_does_not_have_count_as_the_unknown_word() -> None:
    """A word outside the model counts as word 0, both in the sentence and after it."""
    model = made()
    known, unknown = remembered(model, 0, 7), remembered(model, SIZE, 7)
    assert np.array_equal(known, unknown)
    assert model.score([known], [0]) == model.score([known], [99])


def test_the_file_keeps_the_model(tmp_path: Path) -> None:
    """A file has the model with small errors, one byte for each weight of the tables, and the vocabulary."""
    network, path = NeuralNetwork(SIZE, 8, 16, "these words"), tmp_path / "rescoring.safetensors"
    network.save(path)
    weights = NeuralWeights.load(path)
    loaded = NeuralModel(weights, CompiledReading(weights))
    assert (loaded.size, loaded.vocabulary) == (SIZE, "these words")
    before, after = (one.score([remembered(one, 8)] * SIZE, range(SIZE)) for one in (network, loaded))
    assert np.allclose(before, after, atol=0.05)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    wide = NeuralNetwork(1000, 64, 64)
    wide.save(path)
    assert path.stat().st_size < 1.1 * sum(part.numel() for part in wide.parameters())


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """The message names the file and says what is wrong."""
    path = tmp_path / "rescoring.safetensors"
    with pytest.raises(ModelFileError, match=r"rescoring\.safetensors"):
        NeuralWeights.load(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(ModelFileError, match="cannot be read"):
        NeuralWeights.load(path)
    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="not a neural language model of the format 2"):
        NeuralWeights.load(path)
    save_file({"a": np.zeros(2, np.float32)}, path, {"neural": '{"format": 2, "sizes": [4, 2, 2], "vocabulary": ""}'})
    with pytest.raises(ModelFileError, match="lacks a part"):
        NeuralWeights.load(path)
